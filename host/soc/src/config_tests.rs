//! The example is valid, and each way to spoil it is refused.

use super::*;

const EXAMPLE: &str = include_str!("../example.toml");

fn example() -> Config {
    toml::from_str(EXAMPLE).unwrap()
}

#[test]
fn the_example_is_good_and_survives_a_round_trip() {
    let config = example();
    config.check().unwrap();
    let again: Config = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(config, again);
}

#[test]
fn contradictions_are_refused() {
    type Break = fn(&mut Config);
    let breaks: [Break; 18] = [
        |c| c.domains.clear(),
        |c| c.vectors = 0,
        |c| c.soc_slot = 7,
        |c| c.domains[1].command.clear(),
        |c| c.domains[0].stub_table_pa = 4,
        |c| c.devices[0].kick = 0,
        |c| c.devices[1].kick = c.devices[0].kick,
        |c| c.ram.size += 1,
        |c| c.devices[3].dma = None,
        |c| c.devices[0].dma = c.devices[3].dma.clone(),
        |c| c.devices[3].dma.as_mut().unwrap().channels = 17,
        |c| c.devices[3].dma.as_mut().unwrap().bandwidth_mbps = 0,
        |c| c.devices[3].dma.as_mut().unwrap().home_weight = 0,
        |c| c.devices[3].dma.as_mut().unwrap().home_first_ns = u64::MAX,
        |c| c.devices[3].dma.as_mut().unwrap().rings = u64::MAX - 7,
        |c| c.devices[4].net = None,
        |c| c.devices[0].net = c.devices[4].net.clone(),
        |c| c.exact = true,
    ];
    for (i, spoil) in breaks.iter().enumerate() {
        let mut config = example();
        spoil(&mut config);
        assert!(config.check().is_err(), "contradiction {i} was accepted");
    }
}
