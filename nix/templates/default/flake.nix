{
  # Where mvm is: a checkout of it, or a URL.
  inputs.mvm.url = "path:./mvm?dir=nix";

  outputs = { self, mvm }:
    let pkgs = mvm.inputs.nixpkgs.legacyPackages.x86_64-linux; in
    {
      packages.x86_64-linux.default = mvm.lib.mkGuest {
        name = "agent";
        packages = [ pkgs.python3 ];
        user = "agent";
        entrypoint = [ "python3" "-c" "print('hello from a guest')" ];
      };
    };
}
