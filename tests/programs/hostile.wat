;; A program that means no good, in many parts: the first letter of its first argument says which.
;;
;;   witness   means well: computes the same sum until there is a file "stop", and says it; ends
;;             with 1 when it came out different once
;;   paths     asks for everything outside of a directory, by each function with a path; says how
;;             much of it was not refused
;;   files     opens until there is no descriptor left; says the errors, and how many there were
;;   giant     grows its memory until it cannot, touches all of it, says how many pages it had
;;   deep      recursion without end
;;   loop      a loop without end
;;   zzz       sleeps for an hour
;;   bomb K    begins programs on kernel K until it cannot, then kills and awaits them all; says
;;             the error, how many there were, and how many ends it heard of
;;   tree K    begins itself on kernel K, for ever, and so does each of these
;;   hog K     begins "keep" on both kernels until it cannot, keeps files itself, and makes the
;;             directory "fullK"; ends when it is killed
;;   keep      makes pipes and opens files until it cannot, and keeps them
;;   stand K   means well: opens 16 files, makes a pipe, begins and ends a program on kernel K; says
;;             the error of each
;;   run K N   runs bin/smith-0 to N-1 on kernel K, for a second each; says how each ended
;;
;; Memory: 0 two numbers, 16 an iovec, 64 results, 80 a number's text, 128 texts, 512 a Spawn, 592
;; results of ours, 640 files, 1024 pointers, 2048 a path, 4096 strings, 12288 a subscription.
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_create_directory"
    (func $mkdir (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get"
    (func $stat (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_set_times"
    (func $times (param i32 i32 i32 i32 i64 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_readlink"
    (func $readlink (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_remove_directory"
    (func $rmdir (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file"
    (func $unlink (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_symlink"
    (func $symlink (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_rename"
    (func $rename (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_link"
    (func $link (param i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "penumbra" "spawn" (func $spawn (param i32 i32) (result i32)))
  (import "penumbra" "wait" (func $wait (param i32 i32 i32) (result i32)))
  (import "penumbra" "kill" (func $kill (param i32 i32) (result i32)))
  (import "penumbra" "pipe" (func $pipe (param i32) (result i32)))
  (import "penumbra" "dup" (func $dup (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (global $count (mut i32) (i32.const 0))
  (global $wrong (mut i32) (i32.const 0))
  (data (i32.const 128) "bin/hostile\00hostile\00zzz\00hostile\00tree\000\00stop\00jail\00"
    "jail/in\00")
  (data (i32.const 208) "jail/out\00jail/up\00../secret\00..\00secret\00/\00jail/self\00"
    "self\00out\00")
  (data (i32.const 272) "hostile\00keep\00full0\00")
  ;; Ways out of a directory, and the end of the list.
  (data (i32.const 320) "..\00../secret\00/secret\00in/../../secret\00up/secret\00up/up/x\00"
    "self/up/x\00./..\00in/../..\00//\00\00")

  ;; What goes on here is not to go on: says the number of what failed.
  (func $check (param $error i32)
    (if (local.get $error)
      (then
        (call $number (i32.const 2) (local.get $error))
        (call $exit (i32.const 99)))))
  ;; The same; but it may be there from before.
  (func $there (param $error i32)
    (if (i32.ne (local.get $error) (i32.const 20)) (then (call $check (local.get $error)))))
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
  (func $say (param $value i32) (call $number (i32.const 1) (local.get $value)))
  (func $length (param $at i32) (result i32) (local $length i32)
    (block $end (loop $more
      (br_if $end (i32.eqz (i32.load8_u (i32.add (local.get $at) (local.get $length)))))
      (local.set $length (i32.add (local.get $length) (i32.const 1)))
      (br $more)))
    (local.get $length))
  ;; The number of an argument.
  (func $value (param $index i32) (result i32) (local $at i32) (local $sum i32)
    (if (i32.ge_u (local.get $index) (global.get $count)) (then (call $check (i32.const 28))))
    (local.set $at
      (i32.load (i32.add (i32.const 1024) (i32.mul (local.get $index) (i32.const 4)))))
    (block $end (loop $more
      (br_if $end (i32.eqz (i32.load8_u (local.get $at))))
      (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 10))
        (i32.sub (i32.load8_u (local.get $at)) (i32.const 48))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $more)))
    (local.get $sum))
  (func $sleep (param $ns i64)
    (i64.store (i32.const 12288) (i64.const 0))
    (i32.store (i32.const 12296) (i32.const 0))
    (i32.store (i32.const 12304) (i32.const 1))
    (i64.store (i32.const 12312) (local.get $ns))
    (i64.store (i32.const 12320) (i64.const 0))
    (i32.store (i32.const 12328) (i32.const 0))
    (call $check (call $poll (i32.const 12288) (i32.const 12400) (i32.const 1) (i32.const 64))))

  ;; A mebibyte of numbers, and what they come to.
  (func $sum (result i32) (local $at i32) (local $x i64) (local $sum i64)
    (local.set $x (i64.const 88172645463325252))
    (local.set $at (i32.const 65536))
    (loop $more
      (local.set $x (i64.xor (local.get $x) (i64.shl (local.get $x) (i64.const 13))))
      (local.set $x (i64.xor (local.get $x) (i64.shr_u (local.get $x) (i64.const 7))))
      (local.set $x (i64.xor (local.get $x) (i64.shl (local.get $x) (i64.const 17))))
      (i64.store (local.get $at) (local.get $x))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $more (i32.lt_u (local.get $at) (i32.const 1114112))))
    (loop $back
      (local.set $at (i32.sub (local.get $at) (i32.const 8)))
      (local.set $sum (i64.add (i64.rotl (local.get $sum) (i64.const 1))
        (i64.load (local.get $at))))
      (br_if $back (i32.gt_u (local.get $at) (i32.const 65536))))
    (i32.wrap_i64 (i64.xor (local.get $sum) (i64.shr_u (local.get $sum) (i64.const 32)))))
  ;; With pauses: there is one core on shadow.
  (func $witness (local $first i32) (local $round i32)
    (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then (call $check (i32.const 48))))
    (local.set $first (call $sum))
    (loop $more
      (call $sleep (i64.const 50000000))
      (if (i32.ne (call $sum) (local.get $first)) (then (call $exit (i32.const 1))))
      (local.set $round (i32.add (local.get $round) (i32.const 1)))
      ;; It asks for the file at times only: files are both kernels'.
      (br_if $more (i32.rem_u (local.get $round) (i32.const 20)))
      (br_if $more
        (call $stat (i32.const 3) (i32.const 0) (i32.const 167) (i32.const 4) (i32.const 1200))))
    (call $say (local.get $first)))

  ;; What must be refused for lack of rights.
  (func $refused (param $error i32)
    (if (i32.ne (local.get $error) (i32.const 76))
      (then
        (global.set $wrong (i32.add (global.get $wrong) (i32.const 1)))
        (call $number (i32.const 2) (local.get $error)))))
  (func $out (param $jail i32) (param $path i32) (local $n i32)
    (local.set $n (call $length (local.get $path)))
    (call $refused (call $open (local.get $jail) (i32.const 1) (local.get $path) (local.get $n)
      (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)))
    (call $refused (call $open (local.get $jail) (i32.const 0) (local.get $path) (local.get $n)
      (i32.const 9) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 64)))
    (call $refused (call $mkdir (local.get $jail) (local.get $path) (local.get $n)))
    (call $refused (call $stat (local.get $jail) (i32.const 1) (local.get $path) (local.get $n)
      (i32.const 1200)))
    (call $refused (call $times (local.get $jail) (i32.const 1) (local.get $path) (local.get $n)
      (i64.const 0) (i64.const 0) (i32.const 5)))
    (call $refused (call $readlink (local.get $jail) (local.get $path) (local.get $n)
      (i32.const 1200) (i32.const 64) (i32.const 64)))
    (call $refused (call $rmdir (local.get $jail) (local.get $path) (local.get $n)))
    (call $refused (call $unlink (local.get $jail) (local.get $path) (local.get $n)))
    (call $refused (call $symlink (i32.const 238) (i32.const 6) (local.get $jail)
      (local.get $path) (local.get $n)))
    (call $refused (call $rename (local.get $jail) (local.get $path) (local.get $n)
      (local.get $jail) (i32.const 167) (i32.const 4)))
    (call $refused (call $rename (local.get $jail) (i32.const 182) (i32.const 2)
      (local.get $jail) (local.get $path) (local.get $n)))
    (call $refused (call $link (local.get $jail) (i32.const 0) (local.get $path) (local.get $n)
      (local.get $jail) (i32.const 167) (i32.const 4)))
    (call $refused (call $link (local.get $jail) (i32.const 0) (i32.const 257) (i32.const 4)
      (local.get $jail) (local.get $path) (local.get $n))))
  ;; "jail" has a directory "in" and links: "out" to "../secret", "up" to "..", "self" to ".".
  (func $paths (local $jail i32) (local $path i32)
    (call $there (call $mkdir (i32.const 3) (i32.const 172) (i32.const 4)))
    (call $there (call $mkdir (i32.const 3) (i32.const 177) (i32.const 7)))
    (call $check (call $open (i32.const 3) (i32.const 0) (i32.const 238) (i32.const 6)
      (i32.const 1) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 64)))
    (call $there (call $symlink (i32.const 225) (i32.const 9) (i32.const 3) (i32.const 208)
      (i32.const 8)))
    (call $there (call $symlink (i32.const 235) (i32.const 2) (i32.const 3) (i32.const 217)
      (i32.const 7)))
    (call $there (call $symlink (i32.const 235) (i32.const 1) (i32.const 3) (i32.const 247)
      (i32.const 9)))
    (call $check (call $open (i32.const 3) (i32.const 0) (i32.const 172) (i32.const 4)
      (i32.const 2) (i64.const 0x7bffe19) (i64.const 0xfffffff) (i32.const 0) (i32.const 64)))
    (local.set $jail (i32.load (i32.const 64)))
    (local.set $path (i32.const 320))
    (loop $more
      (call $out (local.get $jail) (local.get $path))
      (local.set $path (i32.add (local.get $path)
        (i32.add (call $length (local.get $path)) (i32.const 1))))
      (br_if $more (i32.load8_u (local.get $path))))
    ;; A link at the end, where it is followed.
    (call $refused (call $open (local.get $jail) (i32.const 1) (i32.const 262) (i32.const 3)
      (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)))
    (call $refused (call $stat (local.get $jail) (i32.const 1) (i32.const 262) (i32.const 3)
      (i32.const 1200)))
    ;; A link to an absolute place.
    (call $refused (call $symlink (i32.const 245) (i32.const 1) (local.get $jail)
      (i32.const 167) (i32.const 4)))
    (call $say (global.get $wrong)))

  ;; The directory "bin", once more.
  (func $again (result i32)
    (call $open (i32.const 3) (i32.const 0) (i32.const 128) (i32.const 3)
      (i32.const 2) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 592)))
  (func $files (local $error i32) (local $count i32)
    (block $none (loop $more
      (local.set $error (call $again))
      (br_if $none (local.get $error))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (br $more)))
    (call $say (local.get $error))
    (call $check (call $close (i32.load (i32.const 592))))
    ;; One is left: too few for a pipe, enough for a duplicate.
    (call $say (call $pipe (i32.const 592)))
    (call $say (call $dup (i32.const 3) (i32.const 592)))
    (call $say (call $dup (i32.const 3) (i32.const 592)))
    (call $say (local.get $count)))

  ;; Pipes first: they take two descriptors each, and files would leave none.
  (func $keep (local $count i32)
    (loop $more
      (drop (call $pipe (i32.const 592)))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $count) (i32.const 8))))
    (loop $more (br_if $more (i32.eqz (call $again)))))
  (func $hog (local $kernel i32) (local $tries i32)
    (i32.store8 (i32.const 289) (i32.add (i32.const 48) (call $value (i32.const 2))))
    ;; Until it has failed for two seconds: those it began then have what they can get.
    (loop $more
      (local.set $kernel (i32.xor (local.get $kernel) (i32.const 1)))
      (if (call $begin (i32.const 272) (i32.const 13) (local.get $kernel) (i32.const 0)
          (i32.const 0))
        (then
          (local.set $tries (i32.add (local.get $tries) (i32.const 1)))
          (call $sleep (i64.const 100000000)))
        (else (local.set $tries (i32.const 0))))
      (br_if $more (i32.lt_u (local.get $tries) (i32.const 20))))
    (call $keep)
    (call $check (call $mkdir (i32.const 3) (i32.const 285) (i32.const 5)))
    (call $sleep (i64.const 3600000000000)))
  (func $stand (local $count i32) (local $error i32)
    (loop $more
      (local.set $error (i32.or (local.get $error) (call $again)))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $count) (i32.const 16))))
    (call $say (local.get $error))
    (call $say (call $pipe (i32.const 592)))
    (local.set $error (call $begin (i32.const 140) (i32.const 12) (call $value (i32.const 2))
      (i32.const 0) (i32.const 1)))
    (call $say (local.get $error))
    (if (i32.eqz (local.get $error))
      (then
        (call $check (call $kill (i32.load (i32.const 592)) (i32.const 9)))
        (call $check (call $wait (i32.load (i32.const 592)) (i32.const 0) (i32.const 576))))))

  (func $giant (local $at i32) (local $end i32)
    (loop $more
      (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
    (local.set $at (i32.const 65536))
    (local.set $end (memory.size))
    (block $done (loop $touch
      (br_if $done (i32.ge_u (i32.shr_u (local.get $at) (i32.const 16)) (local.get $end)))
      (i32.store (local.get $at) (local.get $at))
      (local.set $at (i32.add (local.get $at) (i32.const 4096)))
      (br_if $touch (local.get $at))))
    (call $say (memory.size)))
  (func $deep (param $n i32) (result i32)
    (i32.add (call $deep (i32.add (local.get $n) (i32.const 1))) (local.get $n)))
  (func $loop (loop $for_ever (br $for_ever)))

  ;; Begins bin/hostile; its number comes to 592.
  (func $begin (param $arguments i32) (param $bytes i32) (param $kernel i32) (param $group i32)
    (param $flags i32) (result i32)
    (call $fill (i32.const 128) (i32.const 11) (local.get $arguments) (local.get $bytes))
    (i32.store (i32.const 548) (local.get $kernel))
    (i32.store (i32.const 552) (local.get $group))
    (i32.store (i32.const 556) (local.get $flags))
    (call $spawn (i32.const 512) (i32.const 592)))
  ;; The root goes along, as 3; nothing else.
  (func $fill (param $path i32) (param $length i32) (param $arguments i32) (param $bytes i32)
    (i32.store (i32.const 512) (local.get $path))
    (i32.store (i32.const 516) (local.get $length))
    (i32.store (i32.const 520) (local.get $arguments))
    (i32.store (i32.const 524) (local.get $bytes))
    (i64.store (i32.const 528) (i64.const 0))
    (i32.store (i32.const 536) (i32.const 640))
    (i32.store (i32.const 540) (i32.const 1))
    (i32.store (i32.const 544) (i32.const 3))
    (i32.store (i32.const 640) (i32.const 3))
    (i32.store (i32.const 644) (i32.const 3))
    (i32.store (i32.const 648) (i32.const 245))
    (i32.store (i32.const 652) (i32.const 1)))
  (func $bomb (local $kernel i32) (local $error i32) (local $group i32) (local $count i32)
    (local $ended i32)
    (local.set $kernel (call $value (i32.const 2)))
    (block $none (loop $more
      (local.set $error (call $begin (i32.const 140) (i32.const 12) (local.get $kernel)
        (local.get $group) (i32.eqz (local.get $group))))
      (br_if $none (local.get $error))
      (if (i32.eqz (local.get $group)) (then (local.set $group (i32.load (i32.const 592)))))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (br $more)))
    (call $check (call $kill (i32.sub (i32.const 0) (local.get $group)) (i32.const 9)))
    (block $all (loop $next
      (br_if $all
        (call $wait (i32.sub (i32.const 0) (local.get $group)) (i32.const 0) (i32.const 576)))
      ;; By that signal; or there was no memory for it any more when it began to run.
      (if (i32.or (i64.eq (i64.load (i32.const 580)) (i64.const 0x900000002))
          (i64.eq (i64.load (i32.const 580)) (i64.const 0x600000003)))
        (then (local.set $ended (i32.add (local.get $ended) (i32.const 1)))))
      (br $next)))
    (call $say (local.get $error))
    (call $say (local.get $count))
    (call $say (local.get $ended)))
  (func $tree (local $kernel i32)
    (local.set $kernel (call $value (i32.const 2)))
    (i32.store8 (i32.const 165) (i32.add (i32.const 48) (local.get $kernel)))
    (loop $for_ever
      (if (call $begin (i32.const 152) (i32.const 15) (local.get $kernel) (i32.const 0)
          (i32.const 0))
        (then (call $sleep (i64.const 1000000))))
      (br $for_ever)))

  ;; "bin/smith-N" to 2048; its bytes.
  (func $smith (param $n i32) (result i32) (local $end i32)
    (i64.store (i32.const 2048) (i64.const 0x74696d732f6e6962))
    (i32.store16 (i32.const 2056) (i32.const 0x2d68))
    (local.set $end (i32.const 2058))
    (if (i32.ge_u (local.get $n) (i32.const 100))
      (then (local.set $end (call $digit (local.get $end)
        (i32.div_u (local.get $n) (i32.const 100))))))
    (if (i32.ge_u (local.get $n) (i32.const 10))
      (then (local.set $end (call $digit (local.get $end)
        (i32.div_u (local.get $n) (i32.const 10))))))
    (i32.sub (call $digit (local.get $end) (local.get $n)) (i32.const 2048)))
  (func $digit (param $at i32) (param $n i32) (result i32)
    (i32.store8 (local.get $at)
      (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))
    (i32.add (local.get $at) (i32.const 1)))
  ;; How a child ends within so many hundredths of a second, or by our signal then.
  (func $watch (param $pid i32) (local $left i32)
    (local.set $left (i32.const 100))
    (block $over
      (loop $more
        (call $check (call $wait (local.get $pid) (i32.const 1) (i32.const 576)))
        (br_if $over (i32.load (i32.const 576)))
        (call $sleep (i64.const 10000000))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br_if $more (local.get $left)))
      (call $check (call $kill (local.get $pid) (i32.const 9)))
      (call $check (call $wait (local.get $pid) (i32.const 0) (i32.const 576)))))
  (func $run (local $kernel i32) (local $all i32) (local $n i32) (local $error i32)
    (local.set $kernel (call $value (i32.const 2)))
    (local.set $all (call $value (i32.const 3)))
    (loop $more
      (call $fill (i32.const 2048) (call $smith (local.get $n)) (i32.const 140) (i32.const 12))
      ;; Without any file.
      (i32.store (i32.const 540) (i32.const 0))
      (i32.store (i32.const 548) (local.get $kernel))
      (i64.store (i32.const 552) (i64.const 0x100000000))
      (local.set $error (call $spawn (i32.const 512) (i32.const 592)))
      (if (local.get $error)
        (then (call $say (i32.add (i32.const 9000) (local.get $error))))
        (else
          (call $watch (i32.load (i32.const 592)))
          (call $say (i32.add (i32.mul (i32.load (i32.const 580)) (i32.const 1000))
            (i32.rem_u (i32.load (i32.const 584)) (i32.const 1000))))))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $n) (local.get $all)))))

  (func $is (param $letter i32) (result i32)
    (i32.eq (i32.load8_u (i32.load (i32.const 1028))) (local.get $letter)))
  (func (export "_start")
    (call $check (call $args_sizes (i32.const 0) (i32.const 4)))
    (call $check (call $args (i32.const 1024) (i32.const 4096)))
    (global.set $count (i32.load (i32.const 0)))
    (if (i32.lt_u (global.get $count) (i32.const 2)) (then (call $check (i32.const 28))))
    (if (call $is (i32.const 119)) (then (call $witness)))
    (if (call $is (i32.const 112)) (then (call $paths)))
    (if (call $is (i32.const 102)) (then (call $files)))
    (if (call $is (i32.const 103)) (then (call $giant)))
    (if (call $is (i32.const 100)) (then (drop (call $deep (i32.const 0)))))
    (if (call $is (i32.const 108)) (then (call $loop)))
    (if (call $is (i32.const 122)) (then (call $sleep (i64.const 3600000000000))))
    (if (call $is (i32.const 98)) (then (call $bomb)))
    (if (call $is (i32.const 116)) (then (call $tree)))
    (if (call $is (i32.const 104)) (then (call $hog)))
    (if (call $is (i32.const 107)) (then
      (call $keep)
      (call $sleep (i64.const 3600000000000))))
    (if (call $is (i32.const 115)) (then (call $stand)))
    (if (call $is (i32.const 114)) (then (call $run))))
)
