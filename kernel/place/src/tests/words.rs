//! The explanation of a decision.

use super::*;
use crate::{Affinity, Explanation, Server, To, explain_endpoint, missing};
use abi::names::Name;
use abi::platform::{AARCH64, RISCV64, STRONG as FAST};

fn explained(preferences: &Preferences, kernels: &[Facts]) -> String {
    let mut out = String::new();
    let name = |at: usize| ["main", "twin", "shadow"].get(at).copied().unwrap_or("?");
    let outcome = choose(None, preferences, 0, kernels);
    let it = Explanation { preferences, kernels, here: 0, outcome, name: &name };
    it.write(&mut out).unwrap();
    out
}

#[test]
fn an_explanation_has_the_facts_the_steps_and_the_result() {
    let busy = Facts { busy: Some(80), processes: 1, ..STRONG };
    let idle = Facts { busy: Some(3), processes: 2, near: 5, ..STRONG };
    assert_eq!(
        explained(&preferring(&[FAST]), &[busy, Facts { near: 5, ..idle }, WEAK]),
        "  main (aarch64 strong): 80 % busy, 1 process; asked\n  \
           twin (aarch64 strong): 3 % busy, 2 processes; near +5, apart -0\n  \
           shadow (riscv64 weak): use unknown, 0 processes\n  \
           1. It prefers the platform strong: main, twin.\n  \
           2. It wants to be near to servers that run there: twin.\n  \
           So twin: it is nearest to its servers there.\n"
    );
}

#[test]
fn a_missing_platform_is_named() {
    let text = explained(&requiring(RISCV64 | FAST), &[STRONG, WEAK]);
    let last = text.lines().last().unwrap();
    assert_eq!(
        last,
        "  Nowhere: it requires the platform riscv64 strong, which no kernel of this board has."
    );
    let asleep = missing(AARCH64, true).to_string();
    assert_eq!(asleep, "it requires the platform aarch64, and no kernel that has it is available");
    assert!(
        explained(&requiring(RISCV64), &[STRONG, GONE])
            .contains("no kernel that has it is available")
    );
    assert!(explained(&requiring(RISCV64), &[STRONG, GONE]).contains(": does not run"));
}

#[test]
fn every_reason_reads_as_a_sentence() {
    let weak = Preferences { class: LIGHT, ..Preferences::default() };
    assert!(explained(&weak, &[STRONG, WEAK]).contains("1. Its class is light, for weak cores: "));
    let text = explained(&class(NORMAL), &[STRONG, STRONG]);
    assert!(
        text.contains("1. Where the request was made: main.\n  So main: nothing else"),
        "{text}"
    );
    assert!(explained(&class(NORMAL), &[STRONG]).ends_with("  So main: no other kernel runs.\n"));
}

#[test]
fn an_endpoint_is_explained_with_its_servers() {
    let named = |text: &[u8]| Name::new(text).unwrap();
    let server = |kernel, pid| Server { name: Name::EMPTY, contract: [1; 16], kernel, pid };
    let net = Server { name: named(b"service/net/shadow"), contract: [0; 16], kernel: 1, pid: 0 };
    let other = Server { contract: [2; 16], ..server(1, 72) };
    let servers = [server(0, 70), server(1, 71), other, net];
    let name = |at: usize| if at == 0 { "main" } else { "shadow" };
    let line = |contract: [u8; 16], value, is_own| {
        let mut out = String::new();
        let affinity = Affinity { to: To::Contract(contract), value };
        explain_endpoint(&mut out, ("ping.v1", is_own), &affinity, &servers, &name).unwrap();
        out
    };
    let both = "served on main by process 70, shadow by process 71\n";
    assert_eq!(line([1; 16], 5, false), format!("  ping.v1: near (+5); {both}"));
    assert_eq!(
        line([1; 16], -1, true),
        format!("  ping.v1: its own, instances apart (-1); {both}")
    );
    assert_eq!(line([3; 16], -2, false), "  ping.v1: apart (-2); not served now\n");
    assert_eq!(line([3; 16], 0, false), "  ping.v1: anywhere; not served now\n");
    let (mut out, to) = (String::new(), To::Name(named(b"service/net")));
    let affinity = Affinity { to, value: 1 };
    explain_endpoint(&mut out, ("service/net", false), &affinity, &servers, &name).unwrap();
    assert_eq!(out, "  service/net: near (+1); served on shadow\n");
}
