//! The boards of the tree are valid, and an invalid board file is rejected with line and reason.

use abi::power::PowerPoint;
use board::{Board, Dma, Kind, Reason};
use std::path::PathBuf;

fn boards() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../boards")
}

fn duo() -> String {
    std::fs::read_to_string(boards().join("duo.toml")).expect("the tree has a duo")
}

/// Returns duo with one occurrence of `from` (which must exist) replaced.
fn spoiled(from: &str, to: &str) -> String {
    let text = duo();
    assert!(text.contains(from), "duo.toml has no {from:?}");
    text.replacen(from, to, 1)
}

/// Returns the error of `text`: the text of its line, and its reason.
fn refused(text: &str) -> (String, Reason) {
    let error = board::parse("boards/bad.toml", text).expect_err("must be refused");
    let line = text.lines().nth(error.line - 1).unwrap_or("").to_string();
    assert!(error.to_string().starts_with(&format!("boards/bad.toml:{}: ", error.line)));
    (line, error.reason)
}

/// Checks that replacing `from` by `to` is rejected on a line that contains `line`, for a reason
/// that contains `reason`.
fn check(from: &str, to: &str, line: &str, reason: &str) {
    let (found, why) = refused(&spoiled(from, to));
    assert!(found.contains(line), "{to:?}: blamed line {found:?}, reason {why}");
    assert!(why.to_string().contains(reason), "{to:?}: {why}");
}

#[test]
fn every_board_of_the_tree_is_good_and_its_blob_passes_the_kernels_check() {
    let mut seen = 0;
    for entry in std::fs::read_dir(boards()).unwrap() {
        let path = entry.unwrap().path();
        let board = board::read(&path).unwrap();
        assert_eq!(path.file_stem().unwrap().to_str().unwrap(), board.name);
        let blob = board.blob().unwrap();
        assert_eq!(blob.domain_count as usize, board.domains.len());
        places_are_apart(&board);
        let shared = |name: &str| {
            let service = board.services.iter().find(|service| service.name == name);
            service.map(|service| (service.mode, service.home))
        };
        assert!(shared("processes").is_some() && shared("processes") == shared("fs"), "{path:?}");
        assert_eq!(shared("names"), shared("processes"), "{path:?}");
        seen += 1;
    }
    assert!(seen >= 4);
}

fn places_are_apart(board: &Board) {
    let l = &board.layout;
    let n = board.domains.len() as u64;
    let mut places = vec![
        (l.blob, 4096),
        (l.chip, 4096),
        (l.domains, 8 * 4096),
        (l.blocks, 4 * 4096),
        (l.links, n * n * l.link_size),
        (l.dsm, n * n * l.dsm_link_size),
    ];
    for device in &board.devices {
        places.push((device.registers, 4096));
        places.push((device.memory.base, device.memory.size));
    }
    places.sort();
    assert!(places.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{places:x?}");
    let (first, last) = (places[0], places[places.len() - 1]);
    assert!(first.0 >= l.window.base && last.0 + last.1 <= l.window.end());
}

#[test]
fn the_board_to_copy_is_good() {
    let board = board::read(&boards().join("../examples/board.toml")).unwrap();
    assert_eq!((board.name.as_str(), board.domains.len()), ("example", 2));
    board.blob().unwrap();
}

#[test]
fn duo_is_as_documented() {
    let board = board::read(&boards().join("duo.toml")).unwrap();
    let names: Vec<_> = board.domains.iter().map(|d| (d.name.as_str(), d.cores, d.slot)).collect();
    assert_eq!(names, [("main", 2, 1), ("shadow", 1, 2)]);
    assert_eq!(board.main().image.base, 0x8500_0000);
    assert_eq!(board.domains[1].image.base, 0x8200_0000);
    assert_eq!(board.offset(0x8000_0000), 1 << 30);
}

#[test]
fn text_that_is_no_board() {
    check("[ram]", "[ram", "[ram", "");
    check("cores = 2", "cores = \"two\"", "cores", "invalid type");
    check("cores = 2", "cores = 2\ncolour = \"red\"", "colour", "unknown field");
    check("isa = \"aarch64\"", "isa = \"vax\"", "vax", "unknown variant");
    check("role = \"shadow\"", "role = \"boss\"", "boss", "unknown variant");
    check("mode = \"independent\"", "mode = \"loose\"", "loose", "unknown variant");
    check("kind = \"global\"", "kind = \"round\"", "round", "unknown variant");
    check("kind = \"rng\"", "kind = \"fax\"", "fax", "unknown variant");
    check("size = \"6 MiB\"", "size = \"6 MB\"", "6 MB", "no size");
    check("stub = 0x4020_0000\n", "", "[[domain]]", "missing field `stub`");
}

#[test]
fn kernels_with_twins_reach_each_others_images() {
    let text = std::fs::read_to_string(boards().join("duo-twins.toml")).unwrap();
    let moved = text.replace("base = 0x8100_0000", "base = 0x4100_0000");
    let (line, reason) = refused(&moved);
    assert_eq!(line, "base = 0x4100_0000");
    let reason = reason.to_string();
    assert!(
        reason.contains("\"shadow\" does not reach the staging region of \"main\""),
        "{reason}"
    );
    board::parse("boards/good.toml", &moved.replace("twins=on", "")).unwrap();
}

#[test]
fn values_out_of_range() {
    check("cores = 2", "cores = 0", "cores = 0", "1 to 8");
    check("cores = 2", "cores = 9", "cores = 9", "1 to 8");
    check("cpu = \"cortex-a76\"", "cpu = \"\"", "cpu", "core model");
    check("image_max = \"8 MiB\"", "image_max = \"900 MiB\"", "image_max", "within the 176 MiB");
    check("nominal_mhz = 350", "nominal_mhz = 400", "nominal_mhz", "one of frequencies_mhz");
    check("mhz = 350,", "mhz = 351,", "351", "one of frequencies_mhz");
    check("idle_mw = 25.2", "idle_mw = 99.0", "99", "gated from 0 to idle to active");
    check("inactive_mw = 0.1", "inactive_mw = -0.1", "inactive_mw", "0 or more");
    check("vectors = 16", "vectors = 99", "vectors", "4 to 32");
    check("memory = \"64 KiB\"", "memory = \"100 B\"", "100 B", "whole pages");
    check("disk = \"16 MiB\"", "disk = \"100 B\"", "100 B", "512 B sectors");
    check("size = \"6 MiB\"", "size = \"1 MiB\"", "0x8020_0000", "at least");
}

#[test]
fn memory_that_does_not_fit_together() {
    check("size = \"6 MiB\"", "size = \"8 MiB\"", "0x8080_0000", "overlaps the uncached region");
    check("base = 0x8200_0000", "base = 0x8210_0000", "0x8210_0000", "multiple of 0x1000000");
    check("size = \"48 MiB\"", "size = \"47 MiB\"", "47 MiB", "multiple of 0x1000000");
    check("base = 0x8020_0000", "base = 0x8020_0100", "0x8020_0100", "multiple of 0x1000");
    check("base = 0x9000_0000", "base = 0xf000_0000", "0xf000_0000", "inside the RAM");
    check("base = 0x8200_0000", "base = 0x4200_0000", "0x4200_0000", "does not reach");
    check("size = \"6 MiB\"", "size = \"0 MiB\"", "0 MiB", "more than nothing");
    check("kind = \"uncached\"", "kind = \"reserved\"", "", "no uncached memory");
    check("kind = \"local\"\nowner = \"shadow\"", "kind = \"reserved\"", "[[domain]]", "no local");
    check("owner = \"main\"\n", "", "[[memory]]", "needs an owner");
    check("kind = \"global\"", "kind = \"global\"\nowner = \"main\"", "owner", "remove the owner");
    check("owner = \"shadow\"", "owner = \"absent\"", "absent", "no domain named");
    check("kind = \"global\"", "kind = \"local\"\nowner = \"main\"", "0x9000", "a second local");
}

#[test]
fn machines_that_cannot_be() {
    check("stub = 0x4020_0000", "stub = 0x4020_0001", "stub", "multiple");
    check("stub = 0x4020_0000", "stub = 0x4030_0000", "stub", "where the aarch64 stub is linked");
    check(
        "base = 0x4000_0000\nsize = \"16 MiB\"",
        "base = 0x4000_0000\nsize = \"1 MiB\"",
        "stub",
        "must lie in a reserved region",
    );
    check(
        "base = 0x8000_0000, size = \"1 GiB\"",
        "base = 0x9000_0000, size = \"512 MiB\"",
        "ram = ",
        "where this machine has its RAM",
    );
    check(
        "base = 0x8000_0000, size = \"1 GiB\"",
        "base = 0x8000_0000, size = \"4 GiB\"",
        "ram = ",
        "inside the RAM file",
    );
}

#[test]
fn names_and_references() {
    check("name = \"shadow\"", "name = \"main\"", "name = \"main\"", "already a domain");
    check("name = \"rng\"", "name = \"disk\"", "disk", "already a device");
    check("name = \"duo\"", "name = \"Duo Board\"", "Duo Board", "1 to 15");
    check("home = \"main\"", "home = \"mine\"", "mine", "no domain named");
    check("role = \"shadow\"", "role = \"main\"", "role", "second domain with the role main");
    check("role = \"main\"", "role = \"shadow\"", "role", "no domain has the role main");
    check("home = \"main\"", "home = \"mine\"", "mine", "domains: main, shadow");
    check("vector = 4", "vector = 3", "vector = 3", "taken by device \"console\"; free: 4, 5");
    check("vector = 4", "vector = 2", "vector = 2", "taken by fabric.chip");
    check("kick = 4", "kick = 3", "kick = 3", "taken by device \"console\"");
    check("kick = 4", "kick = 0", "kick = 0", "requests to the soc");
    check("vector = 4", "vector = 16", "vector = 16", "0 to 15");
    check("dsm = 1", "dsm = 0", "dsm", "taken by fabric.message");
    check("disk = \"16 MiB\"\n", "", "[[device]]", "needs `disk`");
    check("kind = \"rng\"", "kind = \"rng\"\ndisk = \"1 MiB\"", "disk", "block devices only");
}

#[test]
fn dma_engines_have_defaults_and_limits() {
    let all = duo();
    let lines = ["channels", "bandwidth_mbps", "home_weight", "home_first_us", "setup_ns"]
        .map(|key| all.lines().find(|line| line.starts_with(key)).unwrap());
    let spare = lines.iter().fold(duo(), |text, line| text.replace(&format!("{line}\n"), ""));
    let board = board::parse("boards/spare.toml", &spare).unwrap();
    let dma = board.devices.iter().find_map(|d| d.dma.as_ref()).unwrap();
    let Dma { channels, bandwidth_mbps, home_weight, home_first_us, setup_ns } = dma;
    let values = [channels, bandwidth_mbps, home_weight, home_first_us, setup_ns];
    assert_eq!(values.map(|figure| figure.value), [4, 43, 1, 0, 1000]);
    assert!(dma.setup_ns.source.starts_with("default"));
    check("channels = { value = 4", "channels = { value = 3", "channels", "4 to 16");
    check("channels = { value = 4", "channels = { value = 17", "channels", "4 to 16");
    check("channels = { value = 4", "channels = { value = -4", "channels", "invalid value");
    check("channels = { value = 4", "channels = { valeu = 4", "channels", "unknown field");
    check("bandwidth_mbps = { value = 49", "bandwidth_mbps = { value = 0", "bandwidth", "1 to 100");
    check("home_weight = { value = 2", "home_weight = { value = 0", "home_weight", "1 to 100");
    check("home_first_us = { value = 4", "home_first_us = { value = 4000", "first", "0 to 100000");
    check("setup_ns = { value = 0,", "setup_ns = { value = 2000000000,", "setup", "0 to 1000000");
    check("setup_ns = { value = 0,", "setup_ns = { value = \"soon\",", "setup", "invalid type");
    let said = "source = \"calibrated with it: the doorbells to and fro take 5 us already\"";
    check(said, "source = \"\"", "setup", "comes from");
    check(&format!(", {said}"), "", "setup", "missing field `source`");
    check("memory = \"16 KiB\"", "memory = \"4 KiB\"\ndisk = \"1 MiB\"", "disk", "block devices");
    let many = "channels = { value = 16, source = \"x\" }\n#";
    let text = spoiled("channels = {", many).replacen("\"16 KiB\"", "\"4 KiB\"", 1);
    let (line, why) = refused(&text);
    assert!(line.contains("memory") && why.to_string().contains("16 KiB for 16 rings"), "{why}");
    check(
        "disk = \"16 MiB\"",
        "disk = \"16 MiB\"\nsetup_ns = { value = 1, source = \"x\" }",
        "setup",
        "dma",
    );
}

#[test]
fn services_costs_and_power_say_where_they_come_from() {
    let shared = "frames = { mode = \"delegated\", home = \"main\" }";
    check("frames = { mode = \"independent\" }", shared, "frames", "needs frames to receive");
    let shared = "scheduler = { mode = \"shadowed\" }";
    check(
        "scheduler = { mode = \"independent\" }",
        shared,
        "scheduler",
        "run the thread that answers",
    );
    check("{ mode = \"independent\" }", "{ mode = \"delegated\" }", "delegated", "needs a home");
    check(
        "frames = {",
        "fraems = {",
        "fraems",
        "services: console, disk, dma, frames, fs, host, names, net, processes, random, sched",
    );
    check(
        "{ mode = \"independent\" }",
        "{ mode = \"private\", home = \"main\" }",
        "private",
        "delegated and shadowed services only",
    );
    check("mailbox_ns = {", "postbox_ns = {", "postbox_ns", "unknown cost");
    check(
        "value = 2500, source = \"OMAP4 mailbox, one way, as K2 reports\"",
        "value = 2500, source = \"\"",
        "mailbox_ns",
        "where the figure comes from",
    );
    check("value = 2500", "value = -1", "mailbox_ns", "0 or more");
    check(
        "source = \"OMAP4 (Cortex-A9), as K2 reports\"",
        "source = \"\"",
        "source",
        "where the figure comes from",
    );
}

/// No service's requests have a key, so one kernel would execute all of them.
#[test]
fn a_partitioned_service_is_refused_with_the_modes_that_it_can_have() {
    for service in ["console", "disk", "dma", "fs", "host", "names", "net", "processes", "random"] {
        let line = format!("{service} = {{ mode = \"shadowed\" }}");
        let partitioned = line.replace("shadowed", "partitioned");
        check(&line, &partitioned, &partitioned, "its requests have no key");
        let allowed = "it can be private, independent, shadowed, delegated";
        check(&line, &partitioned, &partitioned, allowed);
    }
    for (service, allowed) in [
        ("frames", "it can be private, independent, shadowed"),
        ("scheduler", "it can be private, independent"),
    ] {
        let line = format!("{service} = {{ mode = \"independent\" }}");
        let partitioned = line.replace("independent", "partitioned");
        check(&line, &partitioned, &partitioned, allowed);
    }
}

#[test]
fn a_driver_runs_where_its_device_is_and_its_users_share_what_they_write() {
    let fs = "fs = { mode = \"shadowed\" }";
    check(fs, &fs.replace("shadowed", "independent"), "disk = {", "share fs as well");
    let console = "console = { mode = \"shadowed\" }";
    let away = "console = { mode = \"delegated\", home = \"shadow\" }";
    check(console, away, "console = {", "another domain than the device's home");
}

#[test]
fn estimates_of_power() {
    let rpx = std::fs::read_to_string(boards().join("rpx.toml")).expect("the tree has an rpx");
    let check = |from: &str, to: &str, reason: &str| {
        assert!(rpx.contains(from), "rpx.toml has no {from:?}");
        let (_, why) = refused(&rpx.replacen(from, to, 1));
        assert!(why.to_string().contains(reason), "{to:?}: {why}");
    };
    check("leakage = 0.15", "leakage = 1.5", "from 0 to 1");
    check("idle_activity = 0.3", "idle_activity = -1", "from 0 to 1");
    check("full_mw = 375", "full_mw = 0", "above 0");
    check("mhz = 324,", "mhz = 325,", "one of frequencies_mhz");
    check("volts = 1.2", "volts = 12", "from 0.1 to 10");
    check("volts = 1.1 },\n    { mhz = 324", "volts = 1.0 },\n    { mhz = 324", "other voltages");
    check("cluster =", "points = []\ncluster =", "either points or an estimate");
    let board = board::parse("rpx.toml", &rpx).expect("good");
    let power = board.domains[0].power.as_ref().expect("a table");
    // 81 and 162 MHz at three voltages, 324 at two, 648 at one.
    assert_eq!((power.points.len(), power.cluster.as_deref()), (9, Some("rpx")));
    assert!(power.points.iter().any(|point| point.mhz == 648 && point.active_mw == 375.0));
    // Kernels get each frequency once, at its lowest voltage.
    let given = board.blob().expect("a blob").domains[0].powers;
    assert_eq!(given.map(|point| point.mhz), [81, 162, 324, 648]);
    assert_eq!((given[3].active_uw, given[3].gated_uw), (375_000, 56_250));
    let at_324 = power.points.iter().filter(|point| point.mhz == 324);
    let least = at_324.map(|point| point.active_mw).fold(f64::INFINITY, f64::min);
    assert_eq!(f64::from(given[2].active_uw), (least * 1000.0).round());
}

#[test]
fn kernels_are_given_the_powers_of_the_file_or_none() {
    let duo = std::fs::read_to_string(boards().join("duo-rest.toml")).expect("readable");
    let blob = |text: &str| board::parse("b.toml", text).expect("good").blob().expect("a blob");
    let main = blob(&duo).domains[0];
    let point = |mhz, active_uw| PowerPoint { mhz, active_uw, idle_uw: 25_200, gated_uw: 25_200 };
    let none = PowerPoint::default();
    assert_eq!(main.powers, [point(350, 79_800), point(1200, 672_000), none, none]);
    assert_eq!(main.inactive_uw, 100);
    let (before, rest) = duo.split_once("[domain.power]").expect("a table");
    let after = &rest[rest.find("[[domain]]").expect("another domain")..];
    let main = blob(&format!("{before}{after}")).domains[0];
    assert_eq!((main.powers, main.inactive_uw), ([none; 4], 0));
}

#[test]
fn room_in_the_format_is_refused_clearly_until_code_fills_it() {
    check("cores = 2", "cores = 2\nqemu = \"shadow\"", "name = \"shadow\"", "not supported yet");
    check("cores = 2", "cores = 2\nmmu = false", "mmu", "not supported yet");
    check("role = \"shadow\"", "role = \"proxy\"", "role", "not supported yet");
}

#[test]
fn an_unreadable_file_is_an_error_too() {
    let error = board::read(&boards().join("none.toml")).unwrap_err();
    assert!(matches!(error.reason, Reason::Unreadable(_)), "{error}");
}

#[test]
fn a_network_device_has_addresses() {
    let board = board::read(&boards().join("duo.toml")).unwrap();
    let net = board.devices.iter().find_map(|d| d.net.as_ref()).unwrap();
    assert_eq!(net.mac, [0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    let shown = format!("{}/{} {} {}", net.v4.address, net.v4.prefix, net.v4.gateway, net.v4.names);
    assert_eq!(shown, "10.0.2.15/24 10.0.2.2 10.0.2.3");
    let shown = format!("{}/{} {} {}", net.v6.address, net.v6.prefix, net.v6.gateway, net.v6.names);
    assert_eq!(shown, "fec0::15/64 fec0::2 fec0::3");
    let moved = "kind = \"net\"\naddress = \"192.168.7.9/30\"\ngateway = \"192.168.7.10\"\n\
        names = \"9.9.9.9\"\nmac = \"02:00:00:00:00:01\"";
    let board = board::parse("b.toml", &spoiled("kind = \"net\"", moved)).unwrap();
    let net = board.devices.iter().find_map(|d| d.net.as_ref()).unwrap();
    assert_eq!((net.v4.prefix, net.v4.names.octets(), net.mac[0]), (30, [9; 4], 2));
}

#[test]
fn addresses_that_cannot_be() {
    let with = |key: &str, line: &str, reason: &str| {
        check("kind = \"net\"", &format!("kind = \"net\"\n{key}"), line, reason);
    };
    for bad in ["10.0.2.15", "10.0.2.15/0", "10.0.2.15/31", "10.0.2.0/24", "10.0.2.255/24"] {
        with(&format!("address = \"{bad}\""), bad, "such as \"10.0.2.15/24\"");
    }
    for bad in ["224.0.0.1/24", "10.0.2/24", "fec0::15/64", "10.0.2.15/-1", ""] {
        with(&format!("address = \"{bad}\""), bad, "such as \"10.0.2.15/24\"");
    }
    for bad in ["fec0::15", "fec0::/64", "ff02::1/64", "fec0::15/127"] {
        with(&format!("address6 = \"{bad}\""), bad, "such as \"fec0::15/64\"");
    }
    with("address = \"10.0.3.1/24\"", "10.0.3.1", "10.0.2.2 is not another host in the network");
    let moved = "address = \"10.0.3.1/24\"\ngateway = \"10.0.3.9\"";
    with(moved, "10.0.3.9", "needs a server of names: names");
    with("gateway = \"10.0.2.15\"", "10.0.2.15", "not another host");
    with("gateway6 = \"fec1::1\"", "fec1::1", "gateway6 fec1::1 is not another host");
    with("gateway = \"gw.local\"", "gw.local", "IPv4 address of a host");
    with("names6 = \"10.0.2.3\"", "10.0.2.3", "IPv6 address of a host");
    with("names = \"0.0.0.0\"", "0.0.0.0", "IPv4 address of a host");
    for bad in ["01:00:00:00:00:01", "00:00:00:00:00:00", "52:54:0:12:34:56", "52:54:00:12:34"] {
        with(&format!("mac = \"{bad}\""), bad, "Ethernet address of one device");
    }
    check("kind = \"rng\"", "kind = \"rng\"\nnames = \"10.0.2.3\"", "names", "net devices only");
}

#[test]
fn a_disk_in_memory_takes_the_last_global_blocks() {
    let mut board = board::read(&boards().join("duo.toml")).unwrap();
    let global = |board: &Board| {
        board.regions.iter().find(|region| region.kind == Kind::Global).unwrap().block
    };
    let (before, block) = (global(&board), abi::boot::BLOCK);
    let most = before.size / 2 / block * block;
    assert_eq!(board.set_disk_aside(most + 1), Err(most));
    assert_eq!(board.set_disk_aside(u64::MAX), Err(most));
    assert_eq!(global(&board), before, "nothing is set aside for a disk that is too large");
    board.set_disk_aside(block + 1).unwrap();
    assert_eq!(board.disk_memory("disk"), None, "the command line does not want it");
    board.arguments = "root=disk ram=disk run=echo ram=other".to_string();
    let disk = board.disk_memory("disk").unwrap();
    assert_eq!((disk.size, disk.end()), (2 * block, before.end()));
    assert_eq!((global(&board).base, global(&board).end()), (before.base, disk.base));
    assert_eq!(board.disk_memory("other"), None);
    assert!(board.has_disk("disk") && !board.has_disk("console") && !board.has_disk("other"));
    let blob = board.blob().unwrap();
    assert!(blob.regions().iter().any(|r| r.kind == abi::boot::kind::DISK && r.base == disk.base));
}
