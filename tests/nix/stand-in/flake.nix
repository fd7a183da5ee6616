# What nix/flake.nix asks of nixpkgs, made of Debian's static bash and busybox (bin/, put there by tests/nix/prepare): so
# that evaluation, mkGuest and the boot of its result can be tested where nixpkgs cannot be fetched. The names and what
# they mean are nixpkgs'; only what is used is here.
{
  outputs = { self }:
    let
      system = "x86_64-linux";
      lib = {
        genAttrs = names: f:
          builtins.listToAttrs (map (name: { inherit name; value = f name; }) names);
      };
      # busybox is many programs, told by its name; a store path's name is none of them.
      bootstrap = name: script: derivation {
        inherit name system;
        builder = ./bin/bash-static;
        args = [ "-euc" "busybox() { (exec -a busybox ${./bin/busybox} \"$@\"); }\n${script}" ];
      };
      busybox = bootstrap "busybox-1.35.0" ''
        busybox mkdir -p $out/bin
        busybox cp ${./bin/busybox} $out/bin/busybox
        busybox chmod 755 $out/bin/busybox
        # One process: an emulated machine is slow at starting them.
        (exec -a busybox $out/bin/busybox --install -s $out/bin)
      '';
      bash = bootstrap "bash-5.2" ''
        busybox mkdir -p $out/bin
        busybox cp ${./bin/bash-static} $out/bin/bash
        busybox chmod 755 $out/bin/bash
        busybox ln -s bash $out/bin/sh
      '';
      runCommand = name: env: script:
        let
          attributes = removeAttrs env [ "passthru" "meta" ];
          made = derivation (attributes // {
            inherit name system;
            builder = "${bash}/bin/bash";
            args = [ "-euc" script ];
            PATH = "${busybox}/bin";
          });
        in
        made // (env.passthru or { });
      writeTextFile = { name, text, executable ? false, destination ? "" }:
        runCommand name { inherit text; passAsFile = [ "text" ]; } ''
          target=$out${destination}
          mkdir -p "$(dirname "$target")"
          cp "$textPath" "$target"
          ${if executable then "chmod 755 \"$target\"" else ""}
        '';
      pkgs = rec {
        inherit system lib bash busybox runCommand writeTextFile;
        bashInteractive = bash;
        coreutils = busybox;
        cacert = runCommand "cacert" { } ''
          mkdir -p $out/etc/ssl/certs
          : >$out/etc/ssl/certs/ca-bundle.crt
        '';
        writeText = name: text: writeTextFile { inherit name text; };
        writeShellScriptBin = name: text: writeTextFile {
          inherit name;
          text = "#!${bash}/bin/bash\n${text}\n";
          executable = true;
          destination = "/bin/${name}";
        };
        # The first package that has a file keeps it.
        buildEnv = { name, paths, pathsToLink ? [ "/" ], ignoreCollisions ? false }:
          runCommand name { inherit paths pathsToLink; } ''
            mkdir -p $out
            for path in $paths; do
              for part in $pathsToLink; do
                [ -d "$path$part" ] || continue
                mkdir -p "$out$part"
                for entry in "$path$part"/*; do
                  [ -e "$out$part/''${entry##*/}" ] || ln -s "$entry" "$out$part/''${entry##*/}"
                done
              done
            done
          '';
        mkShell = { packages ? [ ], inputsFrom ? [ ] }:
          runCommand "shell" { packages = packages ++ map (input: input.name) inputsFrom; } "echo $packages >$out";
        stdenv.mkDerivation = arguments:
          runCommand (arguments.name or "${arguments.pname}-${arguments.version}") { } ''
            echo "the stand-in builds no such thing" >&2
            exit 1
          '';
        # Named by what is built from source; never built here.
        linux_6_12 = { version = "6.12"; src = ./bin; };
        pkgsStatic = pkgs;
        callPackage = file: overrides:
          let function = import file; in
          function (builtins.intersectAttrs (builtins.functionArgs function) (pkgs // others) // overrides);
      };
      others = builtins.listToAttrs (map (name: { inherit name; value = busybox; }) [
        "bc" "bison" "brotli" "bzip2" "ccache" "cli11" "cmake" "elfutils" "flex" "fmt" "gtest" "libarchive" "liburing" "libnl"
        "nghttp2" "ninja" "nlohmann_json" "openssl" "perl" "pkg-config" "python3" "re2" "spdlog" "sqlite" "tomlplusplus" "xz"
        "zlib" "zstd"
      ]);
    in
    {
      inherit lib;
      legacyPackages.${system} = pkgs // others;
    };
}
