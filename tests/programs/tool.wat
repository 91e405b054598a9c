;; A program of many small parts, for tests: the first letter of its first argument says which.
;;
;;   args      its arguments, a line each          cat      its input to its output
;;   env       its environment, a line each        exit N   ends with code N
;;   spin      a loop that calls nothing           zzz      sleeps for an hour
;;   fill      fills its memory, for ever: almost all of that is the engine's
;;   reads     reads from a pipe that nothing is written to
;;   bad       the traps: bad unreachable, memory, division, stack, null, table
;;   grow      grows its memory until it cannot, touches all of it, says how many pages it had
;;   put F     its input into the file F           type F   the file F to its output
;;   self      its number, parent's, group, kernel
;;   hit P     a signal (TERM) for process P
;;   within N  `grow` as a child that may have N KiB of memory
;;   owe N     has 4 MiB more, waits for the file `go`, then touches them: N is 0 by itself, 1 by
;;             its kernel, which it has store there, 2 all at once
;;   keep F    its input into the file F, made durable
;;   log F     lines into the file F, each made durable, for ever
;;   many N    children that sleep, until there is no place for one; each Nth on kernel 1, the
;;             others on kernel 0; when one has ended kills all and waits for them. Says how many
;;             there were, why not more, how many it waited for, and the error of the last wait
;;
;; Memory: 0 two numbers, 16 an iovec, 64 results, 1024 pointers, 4096 strings, 16384 data.
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get"
    (func $environ_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff"
    (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "wasi_snapshot_preview1" "fd_sync" (func $fd_sync (param i32) (result i32)))
  (import "penumbra" "pipe" (func $pipe (param i32) (result i32)))
  (import "penumbra" "self" (func $self (param i32) (result i32)))
  (import "penumbra" "spawn" (func $spawn (param i32 i32) (result i32)))
  (import "penumbra" "wait" (func $wait (param i32 i32 i32) (result i32)))
  (import "penumbra" "kill" (func $kill (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (table $table 4 funcref)
  (type $nothing (func))
  (data (i32.const 128) "tool: error \n")
  ;; A spawn: path, arguments, no environment, no files, directory 3, a kernel, a group of its own.
  (data (i32.const 768) "\40\03\00\00\08\00\00\00\50\03\00\00\09\00\00\00"
    "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00"
    "\03\00\00\00\00\00\00\00\00\00\00\00\01\00\00\00")
  (data (i32.const 832) "bin/tool")
  (data (i32.const 848) "tool\00zzz\00")
  (data (i32.const 864) "tool\00grow\00")
  (data (i32.const 960) "go")
  (global $count (mut i32) (i32.const 0))

  ;; Ends with an error of WASI's, and says its number.
  (func $fail (param $error i32)
    (i32.store8 (i32.const 140) (i32.const 32))
    (call $bytes (i32.const 2) (i32.const 128) (i32.const 12))
    (call $number (i32.const 2) (local.get $error))
    (call $exit (i32.const 99)))
  (func $check (param $error i32)
    (if (local.get $error) (then (call $fail (local.get $error)))))

  ;; All of the bytes to a descriptor.
  (func $bytes (param $fd i32) (param $at i32) (param $left i32)
    (block $done (loop $more
      (br_if $done (i32.eqz (local.get $left)))
      (i32.store (i32.const 16) (local.get $at))
      (i32.store (i32.const 20) (local.get $left))
      (if (call $fd_write (local.get $fd) (i32.const 16) (i32.const 1) (i32.const 64))
        (then (call $exit (i32.const 98))))
      (local.set $at (i32.add (local.get $at) (i32.load (i32.const 64))))
      (local.set $left (i32.sub (local.get $left) (i32.load (i32.const 64))))
      (br $more))))
  (func $line (param $fd i32)
    (i32.store8 (i32.const 80) (i32.const 10))
    (call $bytes (local.get $fd) (i32.const 80) (i32.const 1)))
  ;; A number, and the line's end.
  (func $number (param $fd i32) (param $value i32) (local $at i32)
    (local.set $at (i32.const 111))
    (i32.store8 (i32.const 111) (i32.const 10))
    (loop $more
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at)
        (i32.add (i32.const 48) (i32.rem_u (local.get $value) (i32.const 10))))
      (local.set $value (i32.div_u (local.get $value) (i32.const 10)))
      (br_if $more (local.get $value)))
    (call $bytes (local.get $fd) (local.get $at) (i32.sub (i32.const 112) (local.get $at))))
  (func $length (param $at i32) (result i32) (local $length i32)
    (block $end (loop $more
      (br_if $end (i32.eqz (i32.load8_u (i32.add (local.get $at) (local.get $length)))))
      (local.set $length (i32.add (local.get $length) (i32.const 1)))
      (br $more)))
    (local.get $length))
  (func $argument (param $index i32) (result i32)
    (if (i32.ge_u (local.get $index) (global.get $count)) (then (call $fail (i32.const 28))))
    (i32.load (i32.add (i32.const 1024) (i32.mul (local.get $index) (i32.const 4)))))
  (func $value (param $at i32) (result i32) (local $sum i32)
    (block $end (loop $more
      (br_if $end (i32.eqz (i32.load8_u (local.get $at))))
      (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 10))
        (i32.sub (i32.load8_u (local.get $at)) (i32.const 48))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $more)))
    (local.get $sum))
  ;; The strings that the pointers at 1024 lead to, from one on.
  (func $strings (param $from i32) (param $count i32) (local $at i32)
    (block $done (loop $more
      (br_if $done (i32.ge_u (local.get $from) (local.get $count)))
      (local.set $at
        (i32.load (i32.add (i32.const 1024) (i32.mul (local.get $from) (i32.const 4)))))
      (call $bytes (i32.const 1) (local.get $at) (call $length (local.get $at)))
      (call $line (i32.const 1))
      (local.set $from (i32.add (local.get $from) (i32.const 1)))
      (br $more))))
  ;; From one descriptor to another, to the end.
  (func $copy (param $from i32) (param $to i32)
    (block $done (loop $more
      (i32.store (i32.const 16) (i32.const 16384))
      (i32.store (i32.const 20) (i32.const 32768))
      (call $check
        (call $fd_read (local.get $from) (i32.const 16) (i32.const 1) (i32.const 68)))
      (br_if $done (i32.eqz (i32.load (i32.const 68))))
      (call $bytes (local.get $to) (i32.const 16384) (i32.load (i32.const 68)))
      (br $more))))
  ;; The file of the second argument, below descriptor 3.
  (func $open (param $flags i32) (param $rights i64) (result i32) (local $path i32)
    (local.set $path (call $argument (i32.const 2)))
    (call $check (call $path_open (i32.const 3) (i32.const 1) (local.get $path)
      (call $length (local.get $path)) (local.get $flags) (local.get $rights) (i64.const 0)
      (i32.const 0) (i32.const 72)))
    (i32.load (i32.const 72)))

  (func $environment
    (call $check (call $environ_sizes (i32.const 0) (i32.const 4)))
    (call $check (call $environ (i32.const 1024) (i32.const 4096)))
    (call $strings (i32.const 0) (i32.load (i32.const 0))))
  (func $spin (loop $for_ever (br $for_ever)))
  (func $fill
    (drop (memory.grow (i32.const 64)))
    (loop $for_ever
      (memory.fill (i32.const 65536) (i32.const 1) (i32.const 4194304))
      (br $for_ever)))
  (func $reads
    (call $check (call $pipe (i32.const 72)))
    (call $copy (i32.load (i32.const 72)) (i32.const 1)))
  (func $sleep
    (i64.store (i32.const 200) (i64.const 0))
    (i32.store (i32.const 208) (i32.const 0))
    (i32.store (i32.const 216) (i32.const 1))
    (i64.store (i32.const 224) (i64.const 3600000000000))
    (i64.store (i32.const 232) (i64.const 0))
    (i32.store (i32.const 240) (i32.const 0))
    (call $check (call $poll (i32.const 200) (i32.const 300) (i32.const 1) (i32.const 64))))
  (func $deep (param $n i32) (result i32)
    (i32.add (call $deep (i32.add (local.get $n) (i32.const 1))) (local.get $n)))
  (func $bad (local $which i32)
    (local.set $which (i32.load8_u (call $argument (i32.const 2))))
    (if (i32.eq (local.get $which) (i32.const 117)) (then unreachable))
    (if (i32.eq (local.get $which) (i32.const 109))
      (then (i32.store (i32.const -8) (i32.const 1))))
    (if (i32.eq (local.get $which) (i32.const 100))
      (then (drop (i32.div_u (i32.const 1) (i32.load (i32.const 512))))))
    (if (i32.eq (local.get $which) (i32.const 115))
      (then (drop (call $deep (i32.const 0)))))
    (if (i32.eq (local.get $which) (i32.const 110))
      (then (call_indirect (type $nothing) (i32.const 0))))
    (if (i32.eq (local.get $which) (i32.const 116))
      (then (call_indirect (type $nothing) (i32.const 77)))))
  (func $grow (local $at i32) (local $end i32)
    (loop $more
      (br_if $more (i32.ne (memory.grow (i32.const 64)) (i32.const -1))))
    (local.set $at (i32.const 65536))
    (local.set $end (memory.size))
    (block $done (loop $touch
      (br_if $done (i32.ge_u (i32.shr_u (local.get $at) (i32.const 16)) (local.get $end)))
      (i32.store (local.get $at) (local.get $at))
      (local.set $at (i32.add (local.get $at) (i32.const 4096)))
      (br_if $touch (local.get $at))))
    (call $number (i32.const 1) (memory.size)))
  (func $identity
    (call $check (call $self (i32.const 160)))
    (call $number (i32.const 1) (i32.load (i32.const 160)))
    (call $number (i32.const 1) (i32.load (i32.const 164)))
    (call $number (i32.const 1) (i32.load (i32.const 168)))
    (call $number (i32.const 1) (i32.load (i32.const 172))))

  (func $keep (local $fd i32)
    (local.set $fd (call $open (i32.const 9) (i64.const 80)))
    (call $copy (i32.const 0) (local.get $fd))
    (call $check (call $fd_sync (local.get $fd))))
  (func $log (local $fd i32) (local $line i32)
    (local.set $fd (call $open (i32.const 9) (i64.const 80)))
    (loop $more
      (call $number (local.get $fd) (local.get $line))
      (call $check (call $fd_sync (local.get $fd)))
      (local.set $line (i32.add (local.get $line) (i32.const 1)))
      (br $more)))
  (func $many (local $each i32) (local $count i32) (local $error i32) (local $group i32)
    (local.set $each (call $value (call $argument (i32.const 2))))
    (block $full (loop $more
      (i32.store (i32.const 804)
        (i32.eqz (i32.rem_u (local.get $count) (local.get $each))))
      (local.set $error (call $spawn (i32.const 768) (i32.const 880)))
      (br_if $full (local.get $error))
      (if (i32.eqz (local.get $count))
        (then
          (local.set $group (i32.load (i32.const 880)))
          (i32.store (i32.const 808) (local.get $group))
          (i32.store (i32.const 812) (i32.const 0))))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (br $more)))
    (call $number (i32.const 1) (local.get $count))
    (call $number (i32.const 1) (local.get $error))
    (call $check (call $wait (i32.const -1) (i32.const 0) (i32.const 896)))
    (call $check (call $kill (i32.sub (i32.const 0) (local.get $group)) (i32.const 9)))
    (local.set $count (i32.const 0))
    (block $none (loop $more
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (local.set $error (call $wait (i32.const -1) (i32.const 0) (i32.const 896)))
      (br_if $more (i32.eqz (local.get $error)))))
    (call $number (i32.const 1) (local.get $count))
    (call $number (i32.const 1) (local.get $error)))

  (func $owe (local $at i32) (local $by_kernel i32)
    (local.set $by_kernel (call $value (call $argument (i32.const 2))))
    (local.set $at (i32.shl (memory.grow (i32.const 64)) (i32.const 16)))
    (loop $wait
      (br_if $wait (call $path_open (i32.const 3) (i32.const 0) (i32.const 960) (i32.const 2)
        (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 72))))
    (i32.store (i32.const 16) (i32.const 200))
    (i32.store (i32.const 20) (i32.const 1))
    (if (i32.eq (local.get $by_kernel) (i32.const 2))
      (then (memory.fill (local.get $at) (i32.const 1) (i32.const 4194304))))
    (loop $more
      (if (local.get $by_kernel)
        (then (call $check (call $fd_read (i32.const 0) (i32.const 16) (i32.const 1)
          (local.get $at))))
        (else (i32.store (local.get $at) (i32.const 1))))
      (local.set $at (i32.add (local.get $at) (i32.const 16384)))
      (br_if $more (i32.lt_u (local.get $at) (i32.shl (memory.size) (i32.const 16))))))
  ;; Its output is the child's.
  (func $within
    (i64.store (i32.const 776) (i64.const 0xa00000360))
    (i64.store (i32.const 792) (i64.const 0x1000003b0))
    (i32.store (i32.const 944) (i32.const 1))
    (i32.store (i32.const 948) (i32.const 1))
    (i64.store (i32.const 816) (i64.mul (i64.const 1024)
      (i64.extend_i32_u (call $value (call $argument (i32.const 2))))))
    (call $check (call $spawn (i32.const 768) (i32.const 880)))
    (call $check (call $wait (i32.const -1) (i32.const 0) (i32.const 896))))
  (func $is (param $letter i32) (result i32)
    (i32.eq (i32.load8_u (call $argument (i32.const 1))) (local.get $letter)))
  (func $start (export "_start")
    (call $check (call $args_sizes (i32.const 0) (i32.const 4)))
    (call $check (call $args (i32.const 1024) (i32.const 4096)))
    (global.set $count (i32.load (i32.const 0)))
    (if (call $is (i32.const 97)) (then (call $strings (i32.const 2) (global.get $count))))
    (if (call $is (i32.const 99)) (then (call $copy (i32.const 0) (i32.const 1))))
    (if (call $is (i32.const 101))
      (then
        (if (i32.eq (i32.load8_u (i32.add (call $argument (i32.const 1)) (i32.const 1)))
            (i32.const 110))
          (then (call $environment))
          (else (call $exit (call $value (call $argument (i32.const 2))))))))
    (if (call $is (i32.const 115))
      (then
        (if (i32.eq (i32.load8_u (i32.add (call $argument (i32.const 1)) (i32.const 1)))
            (i32.const 112))
          (then (call $spin))
          (else (call $identity)))))
    (if (call $is (i32.const 102)) (then (call $fill)))
    (if (call $is (i32.const 114)) (then (call $reads)))
    (if (call $is (i32.const 122)) (then (call $sleep)))
    (if (call $is (i32.const 98)) (then (call $bad)))
    (if (call $is (i32.const 103)) (then (call $grow)))
    (if (call $is (i32.const 107)) (then (call $keep)))
    (if (call $is (i32.const 108)) (then (call $log)))
    (if (call $is (i32.const 109)) (then (call $many)))
    (if (call $is (i32.const 104))
      (then (call $check (call $kill (call $value (call $argument (i32.const 2))) (i32.const 15)))))
    (if (call $is (i32.const 119)) (then (call $within)))
    (if (call $is (i32.const 111)) (then (call $owe)))
    (if (call $is (i32.const 112))
      (then (call $copy (i32.const 0) (call $open (i32.const 9) (i64.const 64)))))
    (if (call $is (i32.const 116))
      (then (call $copy (call $open (i32.const 0) (i64.const 2)) (i32.const 1)))))
)
