# bash completion of mvm. Load it with: source <(mvm completion bash)
_mvm_offer() {
  case "$1" in
    sandboxes) COMPREPLY=($(compgen -W "$(mvm ps --all --quiet 2>/dev/null)" -- "$2"));;
    images) COMPREPLY=($(compgen -W "$(mvm image ls --quiet 2>/dev/null)" -- "$2"));;
    files) COMPREPLY=($(compgen -f -- "$2"));;
    shells) COMPREPLY=($(compgen -W 'bash zsh fish' -- "$2"));;
    commands) COMPREPLY=($(compgen -W 'init up run exec shell console cp logs ps inspect stats port mcp down rm fs image build builder kernel audit ai metrics secret policy doctor config daemon completion version help' -- "$2"));;
  esac
}
_mvm() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  local command="${COMP_WORDS[1]}" flags= offer=nothing word
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then _mvm_offer commands "$current"; return; fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do [[ $word == -- ]] && return; done
  case "$command" in
    ai) if [[ $COMP_CWORD -eq 2 && $current != -* ]]; then
        COMPREPLY=($(compgen -W 'usage budget' -- "$current")); return
      fi;;
    audit) if [[ $COMP_CWORD -eq 2 && $current != -* ]]; then
        COMPREPLY=($(compgen -W 'tail show verify export why' -- "$current")); return
      fi;;
    builder) if [[ $COMP_CWORD -eq 2 && $current != -* ]]; then
        COMPREPLY=($(compgen -W 'status shell gc reset' -- "$current")); return
      fi;;
    config) if [[ $COMP_CWORD -eq 2 && $current != -* ]]; then
        COMPREPLY=($(compgen -W 'validate show' -- "$current")); return
      fi;;
    daemon) if [[ $COMP_CWORD -eq 2 && $current != -* ]]; then
        COMPREPLY=($(compgen -W 'status stop' -- "$current")); return
      fi;;
    fs) if [[ $COMP_CWORD -eq 2 && $current != -* ]]; then
        COMPREPLY=($(compgen -W 'read write stat ls mkdir mv rm watch' -- "$current")); return
      fi;;
    image) if [[ $COMP_CWORD -eq 2 && $current != -* ]]; then
        COMPREPLY=($(compgen -W 'import pull ls inspect rm tag verify export prune' -- "$current")); return
      fi;;
    kernel) if [[ $COMP_CWORD -eq 2 && $current != -* ]]; then
        COMPREPLY=($(compgen -W 'import ls rm' -- "$current")); return
      fi;;
    policy) if [[ $COMP_CWORD -eq 2 && $current != -* ]]; then
        COMPREPLY=($(compgen -W 'explain allow deny ls suggest pending approve scan' -- "$current")); return
      fi;;
    secret) if [[ $COMP_CWORD -eq 2 && $current != -* ]]; then
        COMPREPLY=($(compgen -W 'set ls rm test' -- "$current")); return
      fi;;
  esac
  case "$command" in ai|audit|builder|config|daemon|fs|image|kernel|policy|secret) [[ ${COMP_WORDS[2]} == -* ]] || command+=" ${COMP_WORDS[2]}";; esac
  case "$previous" in
    --env-file|--file|--flake|--key) _mvm_offer files "$current"; return;;
    --image) _mvm_offer images "$current"; return;;
    --ai-budget|--ai-token-budget|--allow-cidr|--allow-endpoint|--allow-host|--audit-sync|--boot-timeout|--compress|--count|--cpu-limit|--cpus|--disk-bandwidth|--disk-iops|--disk-size|--env|--flake|--format|--from|--grace|--group-add|--hostname|--idle-timeout|--kernel|--kind|--label|--length|--limit|--lines|--max-cost|--max-input-tokens|--max-output|--max-output-tokens|--max-requests|--max-total-tokens|--mem|--memory|--memory-limit|--metrics-listen|--mode|--name|--network-allow|--network-inspect|--network-mode|--network-preset|--of|--offset|--only|--output-limit|--override-input|--package|--pids-limit|--pii|--pii-bypass|--pii-rule|--platform|--port|--profile|--publish|--ref|--remove|--retention|--rlimit|--root|--scope|--secret|--timeout|--ttl|--ulimit|--upstream-ca|--user|--wall-clock|--watchdog|--workdir) _mvm_offer nothing "$current"; return;;
    --name) _mvm_offer sandboxes "$current"; return;;
  esac
  case "$command" in
    'init') flags='--image --force --help' offer=nothing;;
    'up') flags='--file --flake --image --kernel --cpus --memory --huge-pages --watchdog --no-healthcheck --disk-size --disk-bandwidth --disk-iops --hostname --profile --label --boot-timeout --ttl --no-network --network-preset --network-mode --network-inspect --allow-host --allow-cidr --allow-endpoint --upstream-ca --ai-metering --ai-token-budget --ai-budget --pii --pii-rule --pii-bypass --publish --secret --idle-timeout --retention --wall-clock --pids-limit --output-limit --env --env-file --workdir --user --rm --name --quiet --json --help' offer=sandboxes;;
    'run') flags='--interactive --tty --timeout --max-output --redact --rlimit --memory-limit --pids-limit --cpu-limit --group-add --env --env-file --workdir --user --kernel --cpus --memory --huge-pages --watchdog --no-healthcheck --disk-size --disk-bandwidth --disk-iops --hostname --profile --label --boot-timeout --ttl --no-network --network-preset --network-mode --network-inspect --allow-host --allow-cidr --allow-endpoint --upstream-ca --ai-metering --ai-token-budget --ai-budget --pii --pii-rule --pii-bypass --publish --secret --name --rm --quiet --json --help' offer=images;;
    'exec') flags='--interactive --tty --timeout --max-output --redact --rlimit --memory-limit --pids-limit --cpu-limit --group-add --detach --env --env-file --workdir --user --name --json --help' offer=sandboxes;;
    'shell') flags='--env --env-file --workdir --user --name --help' offer=sandboxes;;
    'console') flags='--quiet --name --help' offer=sandboxes;;
    'cp') flags='--parents --follow-link --user --quiet --json --help' offer=files;;
    'logs') flags='--follow --egress --name --help' offer=sandboxes;;
    'ps'|'ls') flags='--all --quiet --label --json --help' offer=nothing;;
    'inspect') flags='--name --json --help' offer=sandboxes;;
    'stats') flags='--name --json --help' offer=sandboxes;;
    'port') flags='--remove --quiet --json --help' offer=sandboxes;;
    'mcp') flags='--redact --no-redact --name --help' offer=sandboxes;;
    'down'|'stop') flags='--grace --kill --rm --name --quiet --json --help' offer=sandboxes;;
    'rm') flags='--force --name --quiet --help' offer=sandboxes;;
    'fs read'|'fs cat') flags='--offset --length --redact --root --help' offer=nothing;;
    'fs write') flags='--offset --append --new --limit --sync --mode --user --root --json --help' offer=nothing;;
    'fs stat') flags='--follow-link --root --json --help' offer=nothing;;
    'fs ls'|'fs list') flags='--long --limit --root --json --help' offer=nothing;;
    'fs mkdir') flags='--parents --mode --user --root --help' offer=nothing;;
    'fs mv') flags='--no-replace --root --help' offer=nothing;;
    'fs rm') flags='--recursive --root --json --help' offer=nothing;;
    'fs watch') flags='--count --root --json --help' offer=nothing;;
    'image import') flags='--name --ref --platform --drop-setid --quiet --json --help' offer=files;;
    'image pull') flags='--name --platform --drop-setid --quiet --json --help' offer=nothing;;
    'image ls'|'image list') flags='--quiet --json --help' offer=nothing;;
    'image inspect') flags='--json --help' offer=images;;
    'image rm') flags='--force --quiet --help' offer=images;;
    'image tag') flags='--help' offer=images;;
    'image verify') flags='--quiet --help' offer=images;;
    'image export') flags='--format --compress --force --quiet --help' offer=images;;
    'image prune') flags='--all --dry-run --json --help' offer=nothing;;
    'build') flags='--flake --package --name --override-input --update-lock --watch --timeout --verbose --quiet --json --help' offer=files;;
    'builder status') flags='--json --help' offer=nothing;;
    'builder shell') flags='--help' offer=nothing;;
    'builder gc') flags='--quiet --help' offer=nothing;;
    'builder reset') flags='--quiet --help' offer=nothing;;
    'kernel import') flags='--default --quiet --json --help' offer=files;;
    'kernel ls'|'kernel list') flags='--quiet --json --help' offer=nothing;;
    'kernel rm') flags='--force --quiet --help' offer=nothing;;
    'audit tail') flags='--follow --lines --kind --json --help' offer=sandboxes;;
    'audit show') flags='--kind --json --help' offer=sandboxes;;
    'audit verify') flags='--key --file --json --help' offer=sandboxes;;
    'audit export') flags='--public-key --help' offer=sandboxes;;
    'audit why') flags='--json --help' offer=nothing;;
    'ai usage') flags='--json --help' offer=sandboxes;;
    'ai budget') flags='--of --max-total-tokens --max-input-tokens --max-output-tokens --max-requests --max-cost --json --help' offer=nothing;;
    'metrics') flags='--otlp --help' offer=nothing;;
    'secret set') flags='--from --quiet --help' offer=nothing;;
    'secret ls') flags='--all --json --help' offer=nothing;;
    'secret rm') flags='--quiet --help' offer=nothing;;
    'secret test') flags='--from --json --help' offer=nothing;;
    'policy explain') flags='--file --no-network --network-preset --network-mode --network-inspect --allow-host --allow-cidr --allow-endpoint --upstream-ca --ai-metering --ai-token-budget --ai-budget --pii --pii-rule --pii-bypass --json --help' offer=nothing;;
    'policy allow') flags='--quiet --help' offer=sandboxes;;
    'policy deny') flags='--scope --quiet --help' offer=sandboxes;;
    'policy ls'|'policy list') flags='--effective --name --json --help' offer=sandboxes;;
    'policy suggest') flags='--name --help' offer=sandboxes;;
    'policy pending') flags='--quiet --json --help' offer=sandboxes;;
    'policy approve') flags='--scope --quiet --help' offer=nothing;;
    'policy scan') flags='--json --help' offer=files;;
    'doctor') flags='--only --json --help' offer=nothing;;
    'config validate') flags='--json --help' offer=files;;
    'config show') flags='--json --help' offer=files;;
    'daemon') flags='--metrics-listen --audit-sync --help' offer=nothing;;
    'daemon status') flags='--json --help' offer=nothing;;
    'daemon stop') flags='--help' offer=nothing;;
    'completion') flags='--help' offer=shells;;
    'version') flags='--json --help' offer=nothing;;
    'help') flags='--help' offer=commands;;
  esac
  if [[ $current == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$current"))
  else _mvm_offer "$offer" "$current"; fi
}
complete -F _mvm mvm
