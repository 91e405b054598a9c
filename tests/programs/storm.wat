;; Threads that mean harm. The first letter of the argument says what they do:
;;   s  each starts threads as long as there can be more, again and again; main ends with 9 meanwhile
;;   g  eight grow the memory until it does not grow, and mark what they got; main checks the marks: 0
;;   e  eight exit at once, with 101 to 108
;;   t  eight trap at once
;;   o  one waits beyond the end of memory        m  one waits at an odd address
;;   r  one calls itself without end
;;   w  sixteen wait, with short times, and notify each other without end; main ends with 9 meanwhile
(module
  (import "env" "memory" (memory 2 1024 shared))
  (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (export "memory" (memory 0))
  ;; 0: never notified; 8: threads that have finished; 12: pages that threads got; 64: an address of
  ;; each argument; 1024: arguments; 2048: what threads wait at
  (func $sleep (param $ns i64)
    (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (local.get $ns))))
  (func $finish
    (drop (i32.atomic.rmw.add (i32.const 8) (i32.const 1)))
    (drop (memory.atomic.notify (i32.const 8) (i32.const 1))))
  (func $await (param $count i32)
    (local $seen i32)
    (loop $more
      (local.set $seen (i32.atomic.load (i32.const 8)))
      (if (i32.lt_u (local.get $seen) (local.get $count))
        (then
          (drop (memory.atomic.wait32 (i32.const 8) (local.get $seen) (i64.const -1)))
          (br $more)))))
  (func $start (param $count i32) (param $what i32)
    (loop $more
      (if (i32.le_s (call $spawn (local.get $what)) (i32.const 0)) (then (call $exit (i32.const 2))))
      (br_if $more (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))
  (func $deep (param i32) (result i32)
    (i32.add (call $deep (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func $grow (param $tid i32)
    (local $page i32)
    (block $full
      (loop $more
        (local.set $page (memory.grow (i32.const 1)))
        (br_if $full (i32.lt_s (local.get $page) (i32.const 0)))
        (local.set $page (i32.shl (local.get $page) (i32.const 16)))
        ;; Nobody else has the page, and it was zero.
        (if (i32.atomic.rmw.xchg (local.get $page) (local.get $tid)) (then (unreachable)))
        (memory.fill (i32.add (local.get $page) (i32.const 8)) (local.get $tid) (i32.const 4096))
        (drop (i32.atomic.rmw.add (i32.const 12) (i32.const 1)))
        (br $more))))
  (func (export "wasi_thread_start") (param $tid i32) (param $what i32)
    (local $at i32)
    (if (i32.eq (local.get $what) (i32.const 115)) ;; s
      (then (loop $more (drop (call $spawn (i32.const 115))) (br $more))))
    (if (i32.eq (local.get $what) (i32.const 103)) ;; g
      (then (call $grow (local.get $tid))))
    (if (i32.eq (local.get $what) (i32.const 101)) ;; e
      (then (call $exit (i32.add (i32.const 100) (local.get $tid)))))
    (if (i32.eq (local.get $what) (i32.const 116)) ;; t
      (then (unreachable)))
    (if (i32.eq (local.get $what) (i32.const 111)) ;; o
      (then (drop (memory.atomic.wait32 offset=0xfffffffc
        (i32.const 0x7ffffff8) (i32.const 0) (i64.const 1)))))
    (if (i32.eq (local.get $what) (i32.const 109)) ;; m
      (then (drop (memory.atomic.wait32 (i32.const 2049) (i32.const 0) (i64.const 1)))))
    (if (i32.eq (local.get $what) (i32.const 114)) ;; r
      (then (drop (call $deep (i32.const 0)))))
    (if (i32.eq (local.get $what) (i32.const 119)) ;; w
      (then
        (loop $more
          (local.set $at (i32.and (i32.add (i32.mul (local.get $at) (i32.const 1103515245))
            (i32.add (local.get $tid) (i32.const 12345))) (i32.const 0x7fffffff)))
          (drop (memory.atomic.notify
            (i32.add (i32.const 2048) (i32.and (local.get $at) (i32.const 60))) (i32.const 3)))
          (drop (memory.atomic.wait32
            (i32.add (i32.const 2048) (i32.and (i32.shr_u (local.get $at) (i32.const 8))
              (i32.const 60)))
            (i32.const 0) (i64.extend_i32_u (i32.and (local.get $at) (i32.const 0xffff)))))
          (br $more))))
    (call $finish))
  (func (export "_start")
    (local $what i32) (local $page i32)
    (drop (call $args (i32.const 64) (i32.const 1024)))
    (local.set $what (i32.load8_u (i32.load (i32.const 68))))
    (if (i32.eq (local.get $what) (i32.const 115)) ;; s
      (then
        (call $start (i32.const 4) (local.get $what))
        (call $sleep (i64.const 50000000))
        (call $exit (i32.const 9))))
    (if (i32.eq (local.get $what) (i32.const 119)) ;; w
      (then
        (call $start (i32.const 16) (local.get $what))
        (call $sleep (i64.const 100000000))
        (call $exit (i32.const 9))))
    (if (i32.or (i32.or (i32.eq (local.get $what) (i32.const 111))
          (i32.eq (local.get $what) (i32.const 109))) (i32.eq (local.get $what) (i32.const 114)))
      (then (call $start (i32.const 1) (local.get $what)) (call $sleep (i64.const -1))))
    (call $start (i32.const 8) (local.get $what))
    (call $await (i32.const 8))
    ;; g: each page after the first two has the mark of a thread, and all that was got is there.
    (if (i32.ne (i32.atomic.load (i32.const 12)) (i32.sub (memory.size) (i32.const 2)))
      (then (call $exit (i32.const 3))))
    (local.set $page (i32.const 2))
    (loop $more
      (if (i32.eqz (i32.load (i32.shl (local.get $page) (i32.const 16))))
        (then (call $exit (i32.const 4))))
      (br_if $more (i32.lt_u
        (local.tee $page (i32.add (local.get $page) (i32.const 1))) (memory.size))))))
