#!/bin/sh
# Measures what a person waits for, as lines for `./pen report` (docs/howto/measure.md):
#
#   benches/house.sh first        setup.first_prompt_s: an empty clone, until the shell's prompt
#   benches/house.sh latency      pen.latency_ms: ./pen with nothing to build, median of 11
#   benches/house.sh exec [FILE]  exec.hello_ms on a running board, median of 11; with CPython's
#                                 module, exec.cpython_first_s and exec.cpython_load_ms of it
#   benches/house.sh test         test.warm_s: ./pen test, with everything built
#   benches/house.sh fuzz [RUN]   fuzz.runs: inputs of a run of `abuse`, daily or nightly; of both
#   benches/house.sh cuts         disk.cuts: power cuts by nightly runs in this tree, so far
#   benches/house.sh ci           ci.cold_s: .ci/run in an empty clone
#
# Clones are made of the last commit, in a temporary folder. Nothing else should run meanwhile.
# Packages that are installed already are not installed again: `first` on a fresh machine
# includes them.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cores=$(nproc)
fail() {
    echo "house: $*" >&2
    exit 1
}

now() { date +%s%N; }
# record NAME VALUE UNIT WHAT
record() {
    printf '{"name":"%s","value":%s,"unit":"%s","board":"duo","config":"%s, %s cores"}\n' \
        "$1" "$2" "$3" "$4" "$cores"
}
# seconds SINCE; with one decimal.
seconds() { awk "BEGIN { printf \"%.1f\", ($(now) - $1) / 1e9 }"; }

# median COMMAND...: milliseconds of 11 runs.
median() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11; do
        begun=$(now)
        "$@" >/dev/null 2>&1 </dev/null || fail "$* failed"
        echo $((($(now) - begun) / 1000000))
    done | sort -n | sed -n 6p
}

clone() {
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    git clone -q "$root" "$folder/tree"
    cd "$folder/tree"
    unset CARGO_TARGET_DIR
}

with_board() {
    name=house-$$
    ./pen up duo --name "$name" >&2
    trap './pen down "$name" >&2' EXIT
}

cd "$root"
case "${1:-}" in
first)
    clone
    begun=$(now)
    echo 'echo at home' | ./pen run duo >said 2>&1 || fail "no prompt: $(tail -n 3 said)"
    grep -q 'at home' said || fail "the shell did not answer: $(tail -n 3 said)"
    record setup.first_prompt_s "$(seconds "$begun")" s "empty clone"
    ;;
latency)
    ./pen ps >/dev/null
    record pen.latency_ms "$(median ./pen ps)" ms "nothing to build"
    ;;
exec)
    with_board
    ./pen exec --board "$name" hello >/dev/null
    record exec.hello_ms "$(median ./pen exec --board "$name" hello)" ms "running board"
    if [ -n "${2:-}" ]; then
        what="$(basename -- "$2"), $(($(wc -c <"$2") >> 20)) MiB"
        begun=$(now)
        ./pen exec --board "$name" "$2" --version >&2 </dev/null
        record exec.cpython_first_s "$(seconds "$begun")" s "$what, compiled"
        begun=$(now)
        ./pen exec --board "$name" "$2" --version >&2 </dev/null
        record exec.cpython_load_ms "$(seconds "$begun" | awk "{ print \$1 * 1000 }")" ms "$what, compiled before"
    fi
    ;;
test)
    ./pen build duo >/dev/null
    begun=$(now)
    ./pen test >&2 || fail "a test failed"
    record test.warm_s "$(seconds "$begun")" s "everything built"
    ;;
fuzz)
    said=$(mktemp)
    for run in ${2:-daily nightly}; do
        cargo run -q --release -p abuse -- "$run" >"$said" || fail "a rule is broken"
        inputs=$(sed -n "s/^record fuzz.runs.$run \([0-9]*\) inputs$/\1/p" "$said")
        printf '{"name":"fuzz.runs.%s","value":%s,"unit":"inputs","board":"","config":"%s"}\n' \
            "$run" "$inputs" "all targets"
    done
    rm "$said"
    ;;
cuts)
    for kind in "host ext2-cuts e2fsck after each, no board" "boards disk-cuts kernels on boards"; do
        read -r name file what <<END
$kind
END
        cuts=$(cat "target/$file" 2>/dev/null || echo 0)
        printf '{"name":"disk.cuts.%s","value":%s,"unit":"cuts","board":"","config":"%s"}\n' \
            "$name" "$cuts" "$what"
    done
    ;;
ci)
    clone
    begun=$(now)
    .ci/run >&2 || fail ".ci/run failed"
    record ci.cold_s "$(seconds "$begun")" s "empty clone"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
