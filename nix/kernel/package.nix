# The tuned guest kernel, from the same fragments as scripts/build-guest-kernel's; a bundle that `mvm kernel import` takes.
{ stdenv, bc, bison, elfutils, flex, linux_6_12, openssl, perl }:

stdenv.mkDerivation {
  pname = "mvm-guest-kernel";
  inherit (linux_6_12) version src;
  nativeBuildInputs = [ bc bison flex perl ];
  buildInputs = [ elfutils openssl ];
  configurePhase = ''
    make tinyconfig
    # The last line about an option wins.
    cat .config ${./fragment.config} ${./fragment-6.12.config} >merged
    mv merged .config
    make olddefconfig
  '';
  buildPhase = ''
    make -j"$NIX_BUILD_CORES" vmlinux
    strip --strip-debug vmlinux
  '';
  installPhase = ''
    install -D -m 644 vmlinux $out/vmlinux
    install -m 644 .config $out/config
    echo '{"name": "nix-${linux_6_12.version}", "image": "vmlinux", "modules": []}' >$out/bundle.json
  '';
}
