//! Strings, clocks, exit, sockets, and the list of functions.

use crate::common::*;
use kernel_process::functions::{Type, WASI};
use kernel_process::{FUNCTIONS, Stop, for_each_function, outcome};

#[test]
fn the_list_has_all_46_functions_of_preview_1_and_32_of_ours() {
    let wasi = FUNCTIONS.iter().filter(|function| function.module == WASI).count();
    let own = FUNCTIONS.iter().filter(|function| function.module == "penumbra").count();
    assert_eq!((wasi, own, FUNCTIONS.len()), (46, 32, 78));
    let mut names: Vec<_> = FUNCTIONS.iter().map(|function| function.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FUNCTIONS.len());
    let silent: Vec<_> = FUNCTIONS.iter().filter(|f| !f.result).map(|f| f.name).collect();
    assert_eq!(silent, ["proc_exit"]);
    let open = FUNCTIONS.iter().find(|function| function.name == "path_open").unwrap();
    let (i, l) = (Type::I32, Type::I64);
    assert_eq!(open.parameters, [i, i, i, i, i, l, l, i, i]);
    let mut program = Program::new();
    let answer = program
        .within(|process, memory, world| kernel_process::call(1000, process, memory, world, &[]));
    assert_eq!(answer, Ok(52));
}

#[test]
fn arguments_and_environment_are_tables_of_addresses() {
    let mut program = Program::new();
    program.process.add_arguments(b"name\0\0-x\0").unwrap();
    program.process.add_environment(b"A=1\0").unwrap();
    program.process.add_environment(b"B=\0").unwrap();
    assert!(program.process.add_environment(b"C=3").is_err());
    program.ok("args_sizes_get", &[RESULT, RESULT + 4]);
    assert_eq!((program.u32(RESULT), program.u32(RESULT + 4)), (3, 9));
    program.ok("args_get", &[LIST, BUFFER]);
    assert_eq!(program.get(BUFFER, 9), b"name\0\0-x\0");
    let at = [0, 4, 8].map(|index| u64::from(program.u32(LIST + index)) - BUFFER);
    assert_eq!(at, [0, 5, 6]);
    program.ok("environ_sizes_get", &[RESULT, RESULT + 4]);
    assert_eq!((program.u32(RESULT), program.u32(RESULT + 4)), (2, 7));
    program.ok("environ_get", &[LIST, BUFFER]);
    assert_eq!(program.get(BUFFER, 7), b"A=1\0B=\0");
    let end = MEMORY as u64;
    assert_eq!(program.call("args_get", &[LIST, end - 8]), FAULT);
    assert_eq!(program.call("args_get", &[end - 8, BUFFER]), FAULT);
    assert_eq!(program.call("args_sizes_get", &[RESULT, end - 3]), FAULT);
}

#[test]
fn four_clocks_work_and_others_are_refused() {
    let mut program = Program::new();
    for clock in 0..4 {
        program.ok("clock_time_get", &[clock, 0, RESULT + 1]);
        let expected = match clock {
            0 => program.world.now + (1 << 60),
            1 => program.world.now,
            _ => program.world.now / 2,
        };
        assert_eq!(program.u64(RESULT + 1), expected);
        program.ok("clock_res_get", &[clock, RESULT]);
        assert_eq!(program.u64(RESULT), 1);
    }
    for name in ["clock_time_get", "clock_res_get"] {
        let bad: &[u64] = if name == "clock_res_get" { &[4, RESULT] } else { &[4, 0, RESULT] };
        assert_eq!(program.call(name, bad), INVAL);
    }
    assert_eq!(program.call("clock_time_get", &[1, 0, MEMORY as u64 - 7]), FAULT);
    assert_eq!(program.call("clock_time_get", &[1, 0, u64::from(u32::MAX)]), FAULT);
}

#[test]
fn a_program_ends_with_an_exit_code_or_a_signal() {
    let mut program = Program::new();
    assert_eq!(program.run("proc_exit", &[300]), Err(Stop::Exit(300)));
    for (signal, expected) in [
        (0, Ok(0)),
        (6, Err(Stop::Signal(6))),
        (9, Err(Stop::Signal(9))),
        (16, Ok(0)),
        (17, Ok(0)),
        (18, Err(Stop::Signal(18))),
        (22, Ok(0)),
        (27, Ok(0)),
        (30, Err(Stop::Signal(30))),
        (31, Ok(INVAL)),
        (48, Ok(INVAL)),
        (u64::from(u32::MAX), Ok(INVAL)),
    ] {
        assert_eq!(program.run("proc_raise", &[signal]), expected, "{signal}");
    }
    program.ok("sched_yield", &[]);
    assert_eq!(program.world.yields, 1);
}

#[test]
fn random_get_fills_exactly_its_buffer() {
    let mut program = Program::new();
    program.ok("random_get", &[BUFFER, 64]);
    assert_ne!(program.get(BUFFER, 64), [0xee; 64]);
    assert_eq!(program.get(BUFFER + 64, 64), [0xee; 64]);
    program.ok("random_get", &[MEMORY as u64, 0]);
    assert_eq!(program.call("random_get", &[BUFFER, MEMORY as u64]), FAULT);
}

#[test]
fn files_are_no_sockets() {
    let mut program = Program::new();
    for (name, more) in
        [("sock_accept", 2), ("sock_recv", 5), ("sock_send", 4), ("sock_shutdown", 1)]
    {
        let numbers = |fd| [vec![fd], vec![0; more]].concat();
        assert_eq!(program.call(name, &numbers(1)), 57, "{name}");
        assert_eq!(program.call(name, &numbers(40)), BADF, "{name}");
    }
}

/// As an engine does it: a typed closure per function, all with one shared state.
macro_rules! register {
    ([$names:ident] $($module:ident $text:literal $name:ident($($arg:ident: $type:ident),*)
        $(-> $result:ident)?;)*) => {
        $({
            let typed = |program: &mut Program, $($arg: $type),*| {
                program.within(|process, memory, world| {
                    outcome(process.$name(memory, world, $($arg.cast_unsigned()),*))
                })
            };
            let _ = typed;
            $names.push((stringify!($module), $text));
        })*
    };
}

#[test]
fn an_engine_can_make_typed_calls_from_the_list() {
    let mut names = Vec::new();
    for_each_function!(register, names);
    assert_eq!(names.len(), FUNCTIONS.len());
    for ((module, name), function) in names.into_iter().zip(FUNCTIONS) {
        assert_eq!((module == "wasi", name), (function.module == WASI, function.name));
    }
}
