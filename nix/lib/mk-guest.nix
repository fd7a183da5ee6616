# mkGuest: from packages and a few settings to what `mvm build` makes an image of.
#
# The result is a folder with one file, image.json: where the root file system's skeleton is in the store, what to run in
# it and how, and what the store cannot hold (owners and modes). The image is the skeleton laid over "/", and the closure of
# it below /nix/store; mvm's builder streams the two out. Format 1:
#
#   { "mvm": 1, "name": …, "root": STORE PATH, "entrypoint": […], "env": {…}, "user": …, "workdir": …, "labels": {…},
#     "healthcheck": null or { "command": […], "interval": SECONDS, … },
#     "attributes": [ { "path": "/tmp", "mode": "1777", "uid": 0, "gid": 0 } ], "kernel": null or STORE PATH }
{ pkgs }:

{ name
, packages ? [ ]
  # What `mvm run IMAGE` runs: a list of words, or one line for /bin/sh. Nothing: only its services, if it has some.
, entrypoint ? [ ]
, env ? { }
  # A user of this name is made, unless it is root.
, user ? "root"
, workdir ? null
  # "/path" = "text", or { text or source; mode ? "0644"; uid ? 0; gid ? 0; }.
, files ? { }
  # name = a command as entrypoint's, or { command; env ? { }; restart ? true; }. They run beside the entrypoint.
, services ? { }
  # A command as entrypoint's that ends with 0 while all is well, or { command; interval ? 30; timeout ? 30;
  # startPeriod ? 0; startInterval ? 5; retries ? 3; } in seconds.
, healthcheck ? null
  # A bundle with a kernel for this guest, such as packages.kernel; nothing: the host's default.
, kernel ? null
, labels ? { }
}:

let
  inherit (builtins)
    all attrNames attrValues concatStringsSep elem isAttrs isList isString length map match replaceStrings toJSON;

  fail = text: throw "mkGuest ${if isString name then name else ""}: ${text}";
  check = condition: text: value: if condition then value else fail text;

  quote = text: "'" + replaceStrings [ "'" ] [ "'\\''" ] text + "'";
  words = what: command:
    if isString command then [ "/bin/sh" "-c" command ]
    else if isList command && all (word: isString word || isAttrs word) command then map (word: "${word}") command
    else fail "${what} must be a list of words, or one line of shell";

  serviceOf = service: if isAttrs service && service ? command then service else { command = service; };
  serviceLine = id:
    let
      service = serviceOf services.${id};
      assignments = map (key: quote "${key}=${service.env.${key}}") (attrNames (service.env or { }));
    in
    check (match "[a-zA-Z0-9_.-]+" id != null) "a service's name has letters, digits, '_', '.' and '-', not '${id}'"
      (concatStringsSep " " ([ "service" id (if service.restart or true then "1" else "0") "env" ] ++ assignments
        ++ map quote (words "services.${id}" service.command)));

  # Runs the services and, in front of them, what the entrypoint is; ends with it, or with the last service.
  start = pkgs.writeShellScriptBin "mvm-start" ''
    service() {
      name=$1 restart=$2
      shift 2
      while :; do
        "$@"
        echo "service $name ended with status $?" >&2
        [ "$restart" = 1 ] || return 0
        sleep 1
      done
    }
    ${concatStringsSep "\n" (map (id: "${serviceLine id} &") (attrNames services))}
    if [ $# -gt 0 ]; then
      exec "$@"
    fi
    wait
  '';

  hasServices = services != { };
  ownEntrypoint = words "entrypoint" entrypoint;
  isRoot = user == "root";
  home = if isRoot then "/root" else "/home/${user}";

  profile = pkgs.buildEnv {
    name = "${name}-profile";
    paths = packages ++ (if hasServices then [ start ] else [ ]) ++ [ pkgs.bashInteractive pkgs.coreutils ];
    pathsToLink = [ "/bin" "/etc" "/lib" "/share" ];
    ignoreCollisions = true;
  };

  fileOf = path:
    let file = files.${path}; in
    if isString file then { text = file; }
    else
      check (isAttrs file && (file ? text || file ? source) && !(file ? text && file ? source))
        "files.\"${path}\" must be a text, or have either text or source"
        file;
  sourceOf = path:
    let file = fileOf path; in
    if file ? source then "${file.source}" else "${pkgs.writeText "file" file.text}";
  goodPath = path: match "/.+" path != null && match ".*/" path == null && match "(.*/)?\\.\\.?(/.*)?" path == null
    && match "/(nix|proc|sys|dev)(/.*)?" path == null;
  placeFile = path:
    check (goodPath path) "files.\"${path}\" is no absolute path in the guest, or one that is not its own" ''
      mkdir -p "$out/$(dirname ${quote path})"
      rm -rf "$out/"${quote path}
      cp -R ${sourceOf path} "$out/"${quote path}
    '';

  text = path: content: "cp ${pkgs.writeText "file" content} \"$out${path}\"";
  root = pkgs.runCommand "${name}-root" { } ''
    mkdir -p $out/etc/ssl/certs $out/usr $out/root $out/home $out/tmp $out/var/tmp $out/var/empty $out/run $out/proc \
      $out/sys $out/dev $out/nix/store "$out${home}"
    ln -s ${profile}/bin $out/bin
    ln -s bin $out/sbin
    ln -s ../bin $out/usr/bin
    ln -s ${profile}/share $out/usr/share
    ln -s ${profile}/lib $out/lib
    ln -s ${pkgs.cacert}/etc/ssl/certs/ca-bundle.crt $out/etc/ssl/certs/ca-certificates.crt
    ${text "/etc/passwd" (concatStringsSep "\n" ([ "root:x:0:0:root:/root:/bin/sh" ]
      ++ (if isRoot then [ ] else [ "${user}:x:1000:1000:${user}:${home}:/bin/sh" ])
      ++ [ "nobody:x:65534:65534:nobody:/var/empty:/bin/false" "" ]))}
    ${text "/etc/group" (concatStringsSep "\n" ([ "root:x:0:" ] ++ (if isRoot then [ ] else [ "${user}:x:1000:" ])
      ++ [ "nogroup:x:65534:" "" ]))}
    ${text "/etc/hosts" "127.0.0.1 localhost\n::1 localhost\n"}
    ${text "/etc/nsswitch.conf" "passwd: files\ngroup: files\nhosts: files dns\n"}
    : >$out/etc/resolv.conf
    ${concatStringsSep "\n" (map placeFile (attrNames files))}
  '';

  attributes = [
    { path = "/tmp"; mode = "1777"; uid = 0; gid = 0; }
    { path = "/var/tmp"; mode = "1777"; uid = 0; gid = 0; }
    { path = "/root"; mode = "0700"; uid = 0; gid = 0; }
  ] ++ (if isRoot then [ ] else [{ path = home; mode = "0755"; uid = 1000; gid = 1000; }])
  ++ map
    (path:
      let file = fileOf path; in
      {
        inherit path;
        mode = check (match "[0-7]{3,4}" (file.mode or "0644") != null) "files.\"${path}\".mode must be octal digits"
          (file.mode or "0644");
        uid = file.uid or 0;
        gid = file.gid or 0;
      })
    # A folder keeps the modes of what is in it.
    (builtins.filter (path: let file = fileOf path; in !(file ? source) || file ? mode || file ? uid || file ? gid)
      (attrNames files));

  config = {
    mvm = 1;
    inherit name labels attributes;
    root = "${root}";
    entrypoint = if hasServices then [ "/bin/mvm-start" ] ++ (if entrypoint == [ ] then [ ] else ownEntrypoint)
      else if entrypoint == [ ] then [ ] else ownEntrypoint;
    env = { PATH = "/bin"; SSL_CERT_FILE = "/etc/ssl/certs/ca-certificates.crt"; } // builtins.mapAttrs (_: value: "${value}") env;
    user = if isRoot then "" else user;
    workdir = if workdir == null then home else workdir;
    healthcheck = if healthcheck == null then null
      else let check = serviceOf healthcheck; in check // { command = words "healthcheck" check.command; };
    kernel = if kernel == null then null else "${kernel}";
  };
in
check (isString name && match "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}" name != null)
  "name must be 1 to 63 letters, digits, '.', '_' and '-'"
  check
  (isString user && match "[a-z_][a-z0-9_-]{0,31}" user != null) "user must be a user's name"
  (pkgs.runCommand "mvm-guest-${name}"
    {
      # A derivation's text keeps what it names: the closure comes along with the file.
      config = toJSON config;
      passAsFile = [ "config" ];
      passthru.mvm = config;
    } ''
    mkdir -p $out
    cp "$configPath" $out/image.json
  '')
