#!/bin/sh
# One job for each file of a directory: `job-array.sh INPUTS OUTPUTS -- COMMAND...`
#
# Each job runs COMMAND with the name of its input as last argument; what it prints becomes OUTPUTS/NAME.out. The script
# waits for all jobs, and ends with the exit code of `bp jobs --wait`: 0 if all ended well. BP_FACILITY names the facility.
set -eu
[ $# -ge 4 ] && [ "$3" = -- ] || { echo "usage: $0 INPUTS OUTPUTS -- COMMAND..." >&2; exit 2; }
inputs=$1 outputs=$2
shift 3

bp mkdir -p "$outputs"
jobs=
# Names may hold blanks, but no line breaks; they are no patterns.
set -f
IFS='
'
for path in $(bp find "$inputs" --type f); do
    name=$(basename "$path")
    # The shell of the job sees COMMAND as "$@", with the input behind it.
    job=$(bp --json submit --name "$name" --input "$path" --output "out:$outputs/$name.out" -- \
        /bin/sh -c '"$@" >out' job "$@" "$name" | sed -n 's/.*"job": *\([0-9]*\).*/\1/p')
    jobs="$jobs$job$IFS"
done
[ -n "$jobs" ] || { echo "no files in $inputs" >&2; exit 3; }
# Each number is a word of its own here.
# shellcheck disable=SC2086
bp jobs --wait $jobs
