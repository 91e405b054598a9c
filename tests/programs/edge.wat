;; Makes a call to the kernel when almost all of its stack is used.
;;
;;   edge N CALL   calls itself N times, then CALL, whose error is the exit code:
;;     none        nothing
;;     open        a file behind 40 links
;;     poll        a pipe with data, which leaves its kernel for that, and 999 clocks
;;     spawn       edge itself, and waits for it
;;     write       64 KiB into a file
;;     read        a file of another server, in /proc
;;     grow        memory
;;
;; Memory: 0 two numbers, 16 an iovec, 64 results, 128 texts, 512 a Spawn, 640 a file for it, 1024
;; pointers, 4096 strings, 65536 subscriptions, 131072 events.
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_symlink"
    (func $symlink (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "penumbra" "spawn" (func $spawn (param i32 i32) (result i32)))
  (import "penumbra" "wait" (func $wait (param i32 i32 i32) (result i32)))
  (import "penumbra" "pipe" (func $pipe (param i32) (result i32)))
  (memory (export "memory") 4)
  (global $error (mut i32) (i32.const 0))
  (data (i32.const 128) "bin/edge\00edge\000\00none\00l00l01endproc/kernels/")

  (func $check (param $error i32)
    (if (local.get $error) (then (call $exit (local.get $error)))))
  (func $argument (param $index i32) (result i32)
    (i32.load (i32.add (i32.const 1024) (i32.mul (local.get $index) (i32.const 4)))))
  (func $is (param $letter i32) (result i32)
    (i32.eq (i32.load8_u (call $argument (i32.const 2))) (local.get $letter)))
  (func $value (param $at i32) (result i32) (local $sum i32)
    (block $end (loop $more
      (br_if $end (i32.eqz (i32.load8_u (local.get $at))))
      (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 10))
        (i32.sub (i32.load8_u (local.get $at)) (i32.const 48))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $more)))
    (local.get $sum))
  ;; Stores two digits.
  (func $digits (param $at i32) (param $n i32)
    (i32.store8 (local.get $at)
      (i32.add (i32.const 48) (i32.div_u (local.get $n) (i32.const 10))))
    (i32.store8 offset=1 (local.get $at)
      (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10)))))
  ;; Opens a path to read, and to write and create if asked; the descriptor comes to 64.
  (func $open_path (param $path i32) (param $length i32) (param $flags i32) (param $rights i64)
    (result i32)
    (call $open (i32.const 3) (i32.const 1) (local.get $path) (local.get $length)
      (local.get $flags) (local.get $rights) (i64.const 0) (i32.const 0) (i32.const 64)))

  ;; Links l00 to l39, each to the next one, and the last to the file "end".
  (func $links (local $n i32)
    (call $check (call $open_path (i32.const 155) (i32.const 3) (i32.const 1) (i64.const 64)))
    (loop $more
      (call $digits (i32.const 150) (local.get $n))
      (call $digits (i32.const 153) (i32.add (local.get $n) (i32.const 1)))
      ;; It may be there from before.
      (if (i32.eq (local.get $n) (i32.const 39))
        (then (drop (call $symlink (i32.const 155) (i32.const 3) (i32.const 3)
          (i32.const 149) (i32.const 3))))
        (else (drop (call $symlink (i32.const 152) (i32.const 3) (i32.const 3)
          (i32.const 149) (i32.const 3)))))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $n) (i32.const 40))))
    (call $digits (i32.const 150) (i32.const 0)))
  ;; A pipe with a byte in it, and subscriptions: its read end, and clocks of an hour.
  (func $subscribe (local $n i32) (local $at i32)
    (call $check (call $pipe (i32.const 64)))
    (i64.store (i32.const 16) (i64.const 0x100000080))
    (call $check (call $fd_write (i32.load (i32.const 68)) (i32.const 16) (i32.const 1)
      (i32.const 80)))
    (local.set $at (i32.const 65536))
    (i32.store8 offset=8 (local.get $at) (i32.const 1))
    (i32.store offset=16 (local.get $at) (i32.load (i32.const 64)))
    (loop $more
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (local.set $at (i32.add (local.get $at) (i32.const 48)))
      (i32.store offset=16 (local.get $at) (i32.const 1))
      (i64.store offset=24 (local.get $at) (i64.const 3600000000000))
      (br_if $more (i32.lt_u (local.get $n) (i32.const 999)))))
  (func $child
    (i64.store (i32.const 512) (i64.const 0x800000080))
    (i64.store (i32.const 520) (i64.const 0xc00000089))
    (i64.store (i32.const 528) (i64.const 0))
    (i64.store (i32.const 536) (i64.const 0x100000280))
    (i64.store (i32.const 544) (i64.const 0xffffffff00000003))
    (i32.store (i32.const 640) (i32.const 3))
    (i32.store (i32.const 644) (i32.const 3))
    (i32.store (i32.const 648) (i32.const 170))
    (i32.store (i32.const 652) (i32.const 1)))
  (func $prepare
    (if (call $is (i32.const 111)) (then (call $links)))
    (if (call $is (i32.const 112)) (then (call $subscribe)))
    (if (call $is (i32.const 115)) (then (call $child)))
    (if (call $is (i32.const 119)) (then
      (call $check (call $open_path (i32.const 155) (i32.const 3) (i32.const 1) (i64.const 64)))
      (i32.store (i32.const 16) (i32.const 65536))
      (i32.store (i32.const 20) (i32.const 65536)))))

  (func $read (result i32) (local $error i32)
    (local.set $error (call $open_path (i32.const 158) (i32.const 12) (i32.const 0) (i64.const 2)))
    (if (local.get $error) (then (return (local.get $error))))
    (i32.store (i32.const 16) (i32.const 65536))
    (i32.store (i32.const 20) (i32.const 4096))
    (call $fd_read (i32.load (i32.const 64)) (i32.const 16) (i32.const 1) (i32.const 80)))
  (func $begin (result i32) (local $error i32)
    (local.set $error (call $spawn (i32.const 512) (i32.const 64)))
    (if (local.get $error) (then (return (local.get $error))))
    (call $wait (i32.load (i32.const 64)) (i32.const 0) (i32.const 80)))
  (func $work (result i32)
    (if (call $is (i32.const 111)) (then
      (return (call $open_path (i32.const 149) (i32.const 3) (i32.const 0) (i64.const 2)))))
    (if (call $is (i32.const 112)) (then
      (return (call $poll (i32.const 65536) (i32.const 131072) (i32.const 1000) (i32.const 64)))))
    (if (call $is (i32.const 115)) (then (return (call $begin))))
    (if (call $is (i32.const 119)) (then
      (return (call $fd_write (i32.load (i32.const 64)) (i32.const 16) (i32.const 1)
        (i32.const 80)))))
    (if (call $is (i32.const 114)) (then (return (call $read))))
    (if (call $is (i32.const 103)) (then
      (return (i32.eq (memory.grow (i32.const 16)) (i32.const -1)))))
    (i32.const 0))
  (func $down (param $n i32) (result i32)
    (if (i32.eqz (local.get $n)) (then
      (global.set $error (call $work))
      (return (i32.const 0))))
    (i32.add (call $down (i32.sub (local.get $n) (i32.const 1))) (local.get $n)))
  (func (export "_start")
    (call $check (call $args_sizes (i32.const 0) (i32.const 4)))
    (call $check (call $args (i32.const 1024) (i32.const 4096)))
    (if (i32.ne (i32.load (i32.const 0)) (i32.const 3)) (then (call $exit (i32.const 28))))
    (call $prepare)
    (drop (call $down (call $value (call $argument (i32.const 1)))))
    (call $check (global.get $error))))
