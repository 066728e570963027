#compdef tureen
#  Completes the commands and options of tureen in zsh: those that `tureen --help` and `tureen COMMAND --help`
#  name, so that it fits the program that is installed.

#  The action of _arguments for a value that --help calls $1.
_tureen_value () {
    local called=$1
    case $called in
        (*=*:DIR* | *=*:FOLDER*) REPLY='_files' ;;
        (*=*(DIR|FOLDER)*) REPLY='{ compset -P "*="; _files -/ }' ;;
        (*=*(FILE|PATH)*) REPLY='{ compset -P "*="; _files }' ;;
        (*=[a-z]*\|*) REPLY="{ compset -P '*='; compadd -- ${${called#*=}//|/ } }" ;;
        ([a-z]*\|*) REPLY="(${called//|/ })" ;;
        (*DIR* | *FOLDER*) REPLY='_files -/' ;;
        (*FILE* | *PATH* | KEY) REPLY='_files' ;;
        (*) REPLY=' ' ;;
    esac
}

#  Sets `specs`: an entry for each option of command $1.
_tureen_specs () {
    local line head help each name called REPLY
    specs=()
    for line in ${(f)"$(_call_program options $service $1 --help 2>/dev/null)"}; do
        line=${line/#  -h, --help/  --help}
        [[ $line == '  --'* ]] || continue
        line=${line#  }
        head=${line%%  *} help=${${line#$head}##  #}
        help=${${help//\[/(}//\]/)}
        for each in ${(s:, --:)head}; do
            each=${each#--} name=${each%% *} called=
            [[ $each != *' '* ]] || called=${each#* }
            if [[ -z $called ]]; then
                specs+=("*--$name""[${help//:/\\:}]")
            elif [[ $called == '['* ]]; then
                specs+=("*--$name=-""[${help//:/\\:}]::${called//:/\\:}: ")
            else
                _tureen_value $called
                specs+=("*--$name=""[${help//:/\\:}]:${called//:/\\:}:$REPLY")
            fi
        done
    done
}

_tureen () {
    local service=$words[1] line
    local -a commands specs
    if (( CURRENT == 2 )); then
        for line in ${(f)"$(_call_program commands $service --help 2>/dev/null)"}; do
            [[ $line != (#b)'  '([a-z]##)' '#(*) ]] || commands+=("$match[1]:$match[2]")
        done
        _describe command commands
        _arguments '--help[the commands]' '--version[which tureen this is]'
        return
    fi
    if [[ $words[2] == (key|cache) ]] && (( CURRENT == 3 )) && [[ $PREFIX != -* ]]; then
        for line in ${(f)"$(_call_program commands $service $words[2] --help 2>/dev/null)"}; do
            [[ $line != (#b)(|'Usage:')' '#'tureen '$words[2]' '([a-z]##)' '[A-Z]* ]] || commands+=($match[2])
        done
        compadd -- ${(u)commands}
        return
    fi
    _tureen_specs $words[2]
    shift words
    (( CURRENT-- ))
    _arguments -S $specs '*:file:_files'
}

_tureen "$@"
