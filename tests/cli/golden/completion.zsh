#compdef mvm
_mvm_sandboxes() { local -a names; names=(${(f)"$(mvm ps --all --quiet 2>/dev/null)"}); compadd -a names }
_mvm_images() { local -a names; names=(${(f)"$(mvm image ls --quiet 2>/dev/null)"}); compadd -a names }
_mvm_commands() {
  local -a names; names=(
    'init:Write an mvm.toml for this folder'
    'up:Start a sandbox'
    'run:Run one command in a new sandbox and remove it'
    'exec:Run a command in a running sandbox'
    'shell:Open a shell in a running sandbox'
    'cp:Copy files and folders to or from a sandbox'
    'logs:Print a sandbox'\''s console'
    'ps:List sandboxes'
    'inspect:Print all that is known of a sandbox'
    'down:Stop sandboxes'
    'rm:Remove stopped sandboxes'
    'image:commands about images'
    'doctor:Check whether this host can run sandboxes'
    'config:commands about configs'
    'daemon:Serve in the foreground'
    'completion:Print a shell completion script'
    'version:Print the version'
    'help:Explain a command'
  ); _describe command names
}
_mvm() {
  if (( CURRENT == 2 )); then _mvm_commands; return; fi
  local command=$words[2]
  case $command in
    config) if (( CURRENT == 3 )) && [[ $words[3] != -* ]]; then compadd validate show; return; fi
      if [[ $words[3] != -* ]]; then command="$command $words[3]"; shift words; (( CURRENT-- )); fi;;
    daemon) if (( CURRENT == 3 )) && [[ $words[3] != -* ]]; then compadd status stop; return; fi
      if [[ $words[3] != -* ]]; then command="$command $words[3]"; shift words; (( CURRENT-- )); fi;;
    image) if (( CURRENT == 3 )) && [[ $words[3] != -* ]]; then compadd import ls inspect rm; return; fi
      if [[ $words[3] != -* ]]; then command="$command $words[3]"; shift words; (( CURRENT-- )); fi;;
  esac
  shift words; (( CURRENT-- ))
  case $command in
    'init') _arguments -s '--image[Image to name in the file. Default\: base.]:image:_mvm_images' '--force[Replace an existing file.]' '--help[Print help]' '1:value: ';;
    'up') _arguments -s '--file[Read this manifest, not ./mvm.toml.]:file:_files' '-f[Read this manifest, not ./mvm.toml.]:file:_files' '--image[Image to start from. Default\: base.]:image:_mvm_images' '--kernel[Guest kernel\: a name or an absolute path. Default\: the host'\''s.]:value: ' '--cpus[Virtual CPUs, 1 to 32. Default\: 1.]:value: ' '--memory[Memory, such as 768M or 2G. Default\: 512M.]:value: ' '-m[Memory, such as 768M or 2G. Default\: 512M.]:value: ' '--disk-size[Most it may write over its image. Default\: 8G.]:value: ' '--disk-bandwidth[Most that a disk reads and writes in a second. Default\: no limit.]:value: ' '--disk-iops[Most requests that a disk serves in a second. Default\: no limit.]:value: ' '--hostname[Host name inside. Default\: the sandbox'\''s name.]:value: ' '*--label[Label to find it by. May be given many times.]:value: ' '--boot-timeout[How long the start may take. Default\: 60s.]:value: ' '*--env[Environment variable; without a value, the one of the same name here.]:value: ' '*-e[Environment variable; without a value, the one of the same name here.]:value: ' '*--env-file[Environment variables, one NAME=VALUE a line.]:file:_files' '--workdir[Directory to start in.]:value: ' '-w[Directory to start in.]:value: ' '--user[User to run as\: a name, a uid, or uid\:gid.]:value: ' '-u[User to run as\: a name, a uid, or uid\:gid.]:value: ' '--rm[Remove it, with all it wrote, when it ends.]' '--name[The sandbox, instead of the argument NAME.]:sandbox:_mvm_sandboxes' '--quiet[Print no progress and no closing line.]' '-q[Print no progress and no closing line.]' '--json[Print one JSON document instead of text.]' '--help[Print help]' '1:sandbox:_mvm_sandboxes';;
    'run') _arguments -s '--interactive[Connect standard input. Without it the command reads nothing.]' '-i[Connect standard input. Without it the command reads nothing.]' '--tty[Give the command a terminal.]' '-t[Give the command a terminal.]' '--timeout[Stop the command and all it started after this time, such as 30s; exit code 124.]:value: ' '--max-output[Drop output beyond this. Default\: no limit; with --json 1M for each stream.]:value: ' '*--env[Environment variable; without a value, the one of the same name here.]:value: ' '*-e[Environment variable; without a value, the one of the same name here.]:value: ' '*--env-file[Environment variables, one NAME=VALUE a line.]:file:_files' '--workdir[Directory to start in.]:value: ' '-w[Directory to start in.]:value: ' '--user[User to run as\: a name, a uid, or uid\:gid.]:value: ' '-u[User to run as\: a name, a uid, or uid\:gid.]:value: ' '--kernel[Guest kernel\: a name or an absolute path. Default\: the host'\''s.]:value: ' '--cpus[Virtual CPUs, 1 to 32. Default\: 1.]:value: ' '--memory[Memory, such as 768M or 2G. Default\: 512M.]:value: ' '-m[Memory, such as 768M or 2G. Default\: 512M.]:value: ' '--disk-size[Most it may write over its image. Default\: 8G.]:value: ' '--disk-bandwidth[Most that a disk reads and writes in a second. Default\: no limit.]:value: ' '--disk-iops[Most requests that a disk serves in a second. Default\: no limit.]:value: ' '--hostname[Host name inside. Default\: the sandbox'\''s name.]:value: ' '*--label[Label to find it by. May be given many times.]:value: ' '--boot-timeout[How long the start may take. Default\: 60s.]:value: ' '--name[Name of the sandbox. Default\: one is made up.]:value: ' '--rm[Accepted; the sandbox is always removed.]' '--quiet[Print no progress and no closing line.]' '-q[Print no progress and no closing line.]' '--json[Print one JSON document instead of text.]' '--help[Print help]' '1:image:_mvm_images' '*::command: ';;
    'exec') _arguments -s '--interactive[Connect standard input. Without it the command reads nothing.]' '-i[Connect standard input. Without it the command reads nothing.]' '--tty[Give the command a terminal.]' '-t[Give the command a terminal.]' '--timeout[Stop the command and all it started after this time, such as 30s; exit code 124.]:value: ' '--max-output[Drop output beyond this. Default\: no limit; with --json 1M for each stream.]:value: ' '--detach[Start the command and do not wait; its output is dropped.]' '-d[Start the command and do not wait; its output is dropped.]' '*--env[Environment variable; without a value, the one of the same name here.]:value: ' '*-e[Environment variable; without a value, the one of the same name here.]:value: ' '*--env-file[Environment variables, one NAME=VALUE a line.]:file:_files' '--workdir[Directory to start in.]:value: ' '-w[Directory to start in.]:value: ' '--user[User to run as\: a name, a uid, or uid\:gid.]:value: ' '-u[User to run as\: a name, a uid, or uid\:gid.]:value: ' '--name[The sandbox, instead of the argument NAME.]:sandbox:_mvm_sandboxes' '--json[Print one JSON document instead of text.]' '--help[Print help]' '1:sandbox:_mvm_sandboxes' '*::command: ';;
    'shell') _arguments -s '*--env[Environment variable; without a value, the one of the same name here.]:value: ' '*-e[Environment variable; without a value, the one of the same name here.]:value: ' '*--env-file[Environment variables, one NAME=VALUE a line.]:file:_files' '--workdir[Directory to start in.]:value: ' '-w[Directory to start in.]:value: ' '--user[User to run as\: a name, a uid, or uid\:gid.]:value: ' '-u[User to run as\: a name, a uid, or uid\:gid.]:value: ' '--name[The sandbox, instead of the argument NAME.]:sandbox:_mvm_sandboxes' '--help[Print help]' '1:sandbox:_mvm_sandboxes';;
    'cp') _arguments -s '--parents[Make missing folders above the target in the sandbox.]' '-p[Make missing folders above the target in the sandbox.]' '--follow-link[Copy what a symbolic link in the sandbox points to.]' '-L[Copy what a symbolic link in the sandbox points to.]' '--user[Owner of what is written in the sandbox. Default\: root.]:value: ' '-u[Owner of what is written in the sandbox. Default\: root.]:value: ' '--quiet[Print no progress and no closing line.]' '-q[Print no progress and no closing line.]' '--json[Print one JSON document instead of text.]' '--help[Print help]' '1:file:_files' '2:file:_files';;
    'logs') _arguments -s '--follow[Go on until the sandbox ends.]' '-f[Go on until the sandbox ends.]' '--name[The sandbox, instead of the argument NAME.]:sandbox:_mvm_sandboxes' '--help[Print help]' '1:sandbox:_mvm_sandboxes';;
    'ps'|'ls') _arguments -s '--all[Ended ones too.]' '-a[Ended ones too.]' '--quiet[Names only.]' '-q[Names only.]' '*--label[Only those with this label.]:value: ' '--json[Print one JSON document instead of text.]' '--help[Print help]';;
    'inspect') _arguments -s '--name[The sandbox, instead of the argument NAME.]:sandbox:_mvm_sandboxes' '--json[Print it on one line.]' '--help[Print help]' '1:sandbox:_mvm_sandboxes';;
    'down'|'stop') _arguments -s '--grace[How long it may take to end by itself. Default\: 10s.]:value: ' '--kill[Do not ask it, end it at once.]' '--rm[Remove it, with all it wrote, as well.]' '--name[The sandbox, instead of the argument NAME.]:sandbox:_mvm_sandboxes' '--quiet[Print no progress and no closing line.]' '-q[Print no progress and no closing line.]' '--json[Print one JSON document instead of text.]' '--help[Print help]' '*:sandbox:_mvm_sandboxes';;
    'rm') _arguments -s '--force[End it first when it runs; no error when there is none.]' '-f[End it first when it runs; no error when there is none.]' '--name[The sandbox, instead of the argument NAME.]:sandbox:_mvm_sandboxes' '--quiet[Print no progress and no closing line.]' '-q[Print no progress and no closing line.]' '--help[Print help]' '*:sandbox:_mvm_sandboxes';;
    'image import') _arguments -s '--name[Name of the image, instead of the argument.]:value: ' '--quiet[Print no progress and no closing line.]' '-q[Print no progress and no closing line.]' '--json[Print one JSON document instead of text.]' '--help[Print help]' '1:file:_files' '2:value: ';;
    'image ls'|'image list') _arguments -s '--quiet[Names only.]' '-q[Names only.]' '--json[Print one JSON document instead of text.]' '--help[Print help]';;
    'image inspect') _arguments -s '--json[Print it on one line.]' '--help[Print help]' '1:image:_mvm_images';;
    'image rm') _arguments -s '--force[Also when stopped sandboxes were made from it.]' '-f[Also when stopped sandboxes were made from it.]' '--quiet[Print no progress and no closing line.]' '-q[Print no progress and no closing line.]' '--help[Print help]' '*:image:_mvm_images';;
    'doctor') _arguments -s '*--only[Only this check, such as kvm. May be given many times.]:value: ' '--json[Print one JSON document instead of text.]' '--help[Print help]';;
    'config validate') _arguments -s '--json[Print one JSON document instead of text.]' '--help[Print help]' '1:file:_files';;
    'config show') _arguments -s '--json[Print one JSON document instead of text.]' '--help[Print help]' '1:file:_files';;
    'daemon') _arguments -s '--help[Print help]';;
    'daemon status') _arguments -s '--json[Print one JSON document instead of text.]' '--help[Print help]';;
    'daemon stop') _arguments -s '--help[Print help]';;
    'completion') _arguments -s '--help[Print help]' '1:shell:(bash zsh fish)';;
    'version') _arguments -s '--json[Print one JSON document instead of text.]' '--help[Print help]';;
    'help') _arguments -s '--help[Print help]' '*:command:_mvm_commands';;
  esac
}
if [ "$funcstack[1]" = _mvm ]; then _mvm "$@"; else compdef _mvm mvm; fi
