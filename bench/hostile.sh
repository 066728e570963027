#!/bin/sh
#  What a hostile tenant costs another one of equal weight on the same server, attack by attack.  As root:
#  they are two users.
#
#      sh bench/hostile.sh [--seconds S] [--rounds R] [--processes N] [--attack NAME]... [--seed S]
#                          [--one-user] [--data DIR] [--keep]
#
#      --seconds S        of a phase (12)
#      --rounds R         of all attacks, told together (3)
#      --processes N      of the attacker at once (1)
#      --attack NAME      only these: polite (an equal job, no attack), malformed, joins, lists, holding,
#                         tiny, huge, costly, refused, statuses, explains, doors, squatting, halves,
#                         endless (all)
#      --one-user         both are the same user, of a server without tenants: for comparison (then also as
#                         another user than root)
#      --seed S           of all that is random (drawn, and printed)
#      --data DIR         your own ImageFolder of JPEGs; otherwise 3,000 are made in build/demo-data (and stay
#                         there)
#      --keep             keep the logs, and say where they are
#
#  The victim takes batches as fast as they come.  A phase under attack follows one in which the same number
#  of processes spin and leave the server alone, and is compared with that: what the attacker's own processes
#  take of the machine is not the server's to defend.  Fair share: half of what the victim gets beside those
#  that spin.  Served: a wait for a batch, less the time for which the victim's own threads were ready to run
#  and had no processor; the ratio is of these.
#  Exit status 0: at every attack the victim had at least 0.9 of its fair share, and a p99 of its served waits
#  at most 3 times as long.
set -eu

. "$(dirname -- "$0")/runner.sh"

options=
while [ $# -gt 0 ]; do
    case $1 in
    --seconds | --rounds | --processes | --seed)
        [ $# -ge 2 ] || wrong "$1 needs a value"
        case $2 in '' | *[!0-9.]*) wrong "$1 takes a number, not '$2'" ;; esac
        options="$options $1 $2"
        shift 2 ;;
    --attack)
        [ $# -ge 2 ] || wrong "$1 needs a value"
        case $2 in '' | *[!a-z]*) wrong "no attack '$2'" ;; esac
        options="$options $1 $2"
        shift 2 ;;
    --data)
        [ $# -ge 2 ] || wrong "$1 needs a value"
        data=$2
        shift 2 ;;
    --one-user) options="$options $1"; shift ;;
    --keep) keep=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "hostile.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    esac
done

prepare
#  Options are single words.
# shellcheck disable=SC2086
run soak hostile $options
exit "$status"
