#  Completes the commands and options of tureen in bash: those that `tureen --help` and `tureen COMMAND --help`
#  name, so that it fits the program that is installed.

#  Its commands; its options, one a line: "--name VALUE" or "--name".
_tureen_commands () { "$1" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  *.*/\1/p'; }
_tureen_options () {
    "$1" "$2" --help 2>/dev/null | sed -n -e 's/^  -h, --help.*/--help/p' \
        -e '/^  --/ { s/^  //; s/  .*//; s/, --/\n--/g; p; }'
}

#  What $2 is called in the options $1: "VALUE"; empty for a flag, and for what is none.
_tureen_called () {
    local name value
    while read -r name value; do
        [[ $name != "$2" ]] || printf '%s\n' "$value"
    done <<<"$1"
}

#  COMPREPLY: what stands for a value that --help calls $1, begun as $2.
_tureen_value () {
    local called=$1 begun=$2 key=
    #  Behind NAME= comes the value proper.
    if [[ $called == *=* ]]; then
        [[ $begun == *=* ]] || return 0
        called=${called#*=} key=${begun%%=*}= begun=${begun#*=}
        #  NAME.FIELD=mask:DIR
        if [[ $called == *:* && $begun == *:* ]]; then
            called=DIR key=$key${begun%%:*}: begun=${begun#*:}
        fi
    fi
    case $called in
        *:DIR* | *:FOLDER*) mapfile -t COMPREPLY < <(compgen -W 'mask: image: file:' -- "$begun") ;;
        *DIR* | *FOLDER*) mapfile -t COMPREPLY < <(compgen -d -- "$begun") ;;
        *FILE* | *PATH* | KEY) mapfile -t COMPREPLY < <(compgen -f -- "$begun") ;;
        [a-z]*\|*) mapfile -t COMPREPLY < <(compgen -W "${called//|/ }" -- "$begun") ;;
        *) return 0 ;;
    esac
    compopt -o filenames 2>/dev/null
    #  readline breaks words at = and :, unless it was told not to; what it takes for the word is replaced.
    local prefix=$key mark
    for mark in = :; do
        [[ $COMP_WORDBREAKS != *$mark* ]] || prefix=${prefix##*"$mark"}
    done
    COMPREPLY=("${COMPREPLY[@]/#/$prefix}")
}

_tureen () {
    #  The words as typed, up to the cursor: readline has broken them at = and : too.
    local line=${COMP_LINE:0:COMP_POINT} program=${COMP_WORDS[0]/#\~/$HOME} options called
    local -a words
    read -ra words <<<"$line"
    [[ $line != *[[:space:]] ]] || words+=('')
    local count=${#words[@]} command=${words[1]}
    local word=${words[count - 1]} before=${words[count - 2]}
    COMPREPLY=()
    if ((count <= 2)); then
        mapfile -t COMPREPLY < <(compgen -W "$(_tureen_commands "$program") --help --version" -- "$word")
        return
    fi
    options=$(_tureen_options "$program" "$command")
    if [[ $word == --*=* ]]; then
        before=${word%%=*} word=${word#*=}
        _tureen_value "$(_tureen_called "$options" "$before")" "$word"
        return
    fi
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(sed 's/ .*//' <<<"$options")" -- "$word")
        return
    fi
    if [[ $before == --* ]]; then
        called=$(_tureen_called "$options" "$before")
        if [[ $called && $called != '['* ]]; then
            _tureen_value "$called" "$word"
            return
        fi
    fi
    if [[ $command == key || $command == cache ]] && ((count == 3)); then
        mapfile -t COMPREPLY < <(compgen -W "$("$program" "$command" --help |
            sed -n "s/^[Usage: ]*tureen $command \\([a-z]*\\) [A-Z].*/\\1/p" | sort -u)" -- "$word")
        return
    fi
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
}

complete -F _tureen tureen
