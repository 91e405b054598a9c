;; Writes all of its arguments, each with its NUL, to its output: they may have 128 KiB.
;;
;; Memory: 0 two numbers, 16 an iovec, 24 bytes written, 1024 pointers, 65536 strings.
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 4)

  ;; Ends with an error of WASI's as the exit code.
  (func $check (param $error i32)
    (if (local.get $error) (then (call $exit (local.get $error)))))

  (func (export "_start") (local $at i32) (local $left i32)
    (call $check (call $sizes (i32.const 0) (i32.const 4)))
    (call $check (call $args (i32.const 1024) (i32.const 65536)))
    (local.set $at (i32.const 65536))
    (local.set $left (i32.load (i32.const 4)))
    (loop $more
      (i32.store (i32.const 16) (local.get $at))
      (i32.store (i32.const 20) (local.get $left))
      (call $check
        (call $fd_write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 24)))
      (local.set $at (i32.add (local.get $at) (i32.load (i32.const 24))))
      (local.set $left (i32.sub (local.get $left) (i32.load (i32.const 24))))
      (br_if $more (local.get $left)))))
