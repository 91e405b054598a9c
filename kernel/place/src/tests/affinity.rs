//! Platforms, and servers to be near to or apart from.

use super::*;
use crate::{Affinity, Server, To, is_wanted, weigh};
use abi::names::Name;
use abi::platform::{AARCH64, RISCV64, STRONG as FAST, WEAK as SLOW};

const STORAGE: [u8; 16] = [1; 16];
const VIRUS: [u8; 16] = [2; 16];

/// Returns the kernels with the sums of these affinities, for servers (contract, kernel).
fn weighed<const N: usize>(
    affinities: &[([u8; 16], i32)],
    servers: &[([u8; 16], usize)],
    mut kernels: [Facts; N],
) -> [Facts; N] {
    let affinities: Vec<_> =
        affinities.iter().map(|&(it, value)| Affinity { to: To::Contract(it), value }).collect();
    let servers: Vec<_> = (10..)
        .zip(servers)
        .map(|(pid, &(contract, kernel))| Server { name: Name::EMPTY, contract, kernel, pid })
        .collect();
    weigh(&affinities, &servers, &mut kernels);
    kernels
}

#[test]
fn a_required_platform_is_met_or_named() {
    let duo = [STRONG, WEAK];
    assert_eq!(chosen(&requiring(RISCV64), 0, &duo), (1, Reason::Required));
    assert_eq!(chosen(&requiring(AARCH64 | FAST), 1, &duo), (0, Reason::Required));
    let refused = |required, kernels| choose(None, &requiring(required), 0, kernels);
    let no = |required, is_on_board| Err(Refused::NoPlatform { required, is_on_board });
    assert_eq!(refused(RISCV64 | FAST, &duo), no(RISCV64 | FAST, false));
    assert_eq!(refused(RISCV64, &[STRONG, GONE]), no(RISCV64, true));
    assert_eq!(refused(RISCV64, &[STRONG]), no(RISCV64, false), "also with one kernel");
    assert_eq!(chosen(&requiring(FAST), 0, &[STRONG]), (0, Reason::Only));
}

#[test]
fn the_first_preferred_platform_that_a_kernel_has_is_chosen() {
    let duo = [STRONG, WEAK];
    assert_eq!(chosen(&preferring(&[RISCV64]), 0, &duo), (1, Reason::Preferred(RISCV64)));
    assert_eq!(chosen(&preferring(&[RISCV64, AARCH64]), 0, &duo).0, 1);
    assert_eq!(chosen(&preferring(&[RISCV64, AARCH64]), 0, &[STRONG, GONE]).0, 0);
    assert_eq!(chosen(&preferring(&[SLOW]), 0, &[STRONG, STRONG]).0, 0, "a preference only");
    let both = Preferences { required: AARCH64, ..preferring(&[SLOW]) };
    assert_eq!(chosen(&both, 0, &duo), (0, Reason::Required), "what is required comes first");
    // The class decides among several kernels of a platform.
    let slow_arm = Facts { is_strong: false, ..STRONG };
    assert_eq!(chosen(&preferring(&[AARCH64]), 1, &[WEAK, slow_arm, STRONG]), (2, Reason::Class));
}

#[test]
fn a_program_starts_near_its_servers() {
    let near = weighed(&[(STORAGE, 1)], &[(STORAGE, 1)], [STRONG, WEAK]);
    assert_eq!(chosen(&class(NORMAL), 0, &near), (1, Reason::Near));
    let busy = Facts { busy: Some(99), processes: 50, ..WEAK };
    let near = weighed(&[(STORAGE, 1)], &[(STORAGE, 1)], [STRONG, busy]);
    assert_eq!(chosen(&class(NORMAL), 0, &near), (1, Reason::Near), "however busy they are");
    let nowhere = weighed(&[(STORAGE, 1)], &[(VIRUS, 1)], [STRONG, WEAK]);
    assert_eq!(chosen(&class(NORMAL), 0, &nowhere), (0, Reason::Class), "no process serves it");
    let sums = weighed(
        &[(STORAGE, 5), (VIRUS, 3)],
        &[(STORAGE, 0), (VIRUS, 1), (VIRUS, 1)],
        [STRONG, WEAK],
    );
    assert_eq!((sums[0].near, sums[1].near), (5, 6), "two servers of 3 outweigh one of 5");
    assert_eq!(chosen(&class(NORMAL), 0, &sums).0, 1);
    let platform = preferring(&[AARCH64]);
    assert_eq!(chosen(&platform, 0, &near), (0, Reason::Preferred(AARCH64)), "platforms first");
}

#[test]
fn a_program_starts_apart_from_servers_if_it_can() {
    let apart = weighed(&[(STORAGE, -1)], &[(STORAGE, 0)], [STRONG, WEAK]);
    assert_eq!(chosen(&class(NORMAL), 0, &apart), (1, Reason::Apart));
    assert_eq!(chosen(&requiring(AARCH64), 0, &apart), (0, Reason::Required));
    assert_eq!(chosen(&class(NORMAL), 0, &[apart[0], GONE]).0, 0);
    let twins = weighed(&[(STORAGE, -1)], &[(STORAGE, 0)], [STRONG, STRONG, WEAK]);
    assert_eq!(chosen(&preferring(&[FAST]), 0, &twins), (1, Reason::Apart), "not on a weak one");
    let first =
        weighed(&[(STORAGE, 1), (VIRUS, -100)], &[(STORAGE, 0), (VIRUS, 0)], [STRONG, WEAK]);
    assert_eq!(chosen(&class(NORMAL), 0, &first), (0, Reason::Near), "near counts before apart");
}

/// A service that wants its instances apart has a negative affinity to its own contract.
#[test]
fn instances_of_a_service_spread_over_the_kernels() {
    let mut servers: Vec<([u8; 16], usize)> = vec![];
    for _ in 0..6 {
        let kernels = weighed(&[(VIRUS, -1)], &servers, [STRONG, STRONG, WEAK]);
        servers.push((VIRUS, chosen(&class(NORMAL), 0, &kernels).0));
    }
    let kernels: Vec<usize> = servers.iter().map(|&(_, kernel)| kernel).collect();
    assert_eq!(kernels, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_server_counts_once_whatever_its_names() {
    let affinity = Affinity { to: To::Contract(STORAGE), value: 7 };
    let one = Server { name: Name::EMPTY, contract: STORAGE, kernel: 0, pid: 70 };
    let other = Server { pid: 71, ..one };
    let far = Server { kernel: 9, ..one };
    let mut kernels = [STRONG, WEAK];
    weigh(&[affinity], &[one, other, one, far], &mut kernels);
    assert_eq!((kernels[0].near, kernels[1].near), (14, 0));
    let least = Affinity { value: i32::MIN, ..affinity };
    weigh(&[least, least, least], &[one], &mut kernels);
    assert_eq!(kernels[0].apart, u32::MAX, "no sum overflows");
    let named = Server { name: Name::new(b"b/c").unwrap(), ..one };
    let mut kernels = [STRONG, WEAK];
    weigh(&[affinity], &[one, named], &mut kernels);
    assert_eq!(kernels[0].near, 7, "of another name too");
    assert!(is_wanted(&[affinity]) && !is_wanted(&[Affinity { value: 0, ..affinity }]));
}

#[test]
fn a_name_leads_to_all_below_it() {
    let to = |text: &[u8]| To::Name(Name::new(text).unwrap());
    let server = |name: &[u8], kernel, pid| Server {
        name: Name::new(name).unwrap(),
        contract: [0; 16],
        kernel,
        pid,
    };
    let servers = [
        server(b"kernel/main", 0, 0),
        server(b"kernel/shadow", 1, 0),
        server(b"mail/spam", 0, 12),
        server(b"mail/virus", 1, 13),
        server(b"mailer", 0, 14),
        server(b"service/net/shadow", 1, 0),
    ];
    let sums = |name: &[u8]| {
        let mut kernels = [STRONG, WEAK];
        weigh(&[Affinity { to: to(name), value: 3 }], &servers, &mut kernels);
        kernels.map(|it| it.near)
    };
    assert_eq!(sums(b"kernel/shadow"), [0, 3]);
    assert_eq!(sums(b"kernel"), [3, 3]);
    assert_eq!(sums(b"mail"), [3, 3], "and not what begins with the same letters");
    assert_eq!(sums(b"mail/virus"), [0, 3]);
    assert_eq!(sums(b"service/net"), [0, 3]);
    assert_eq!(sums(b"service"), [0, 3]);
    assert_eq!(sums(b"service/disk"), [0, 0]);
}
