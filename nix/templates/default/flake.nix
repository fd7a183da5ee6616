{
  # Where mvm is: a checkout of it in this folder. Elsewhere: "git+file:///path/to/mvm?dir=nix", or where it is kept.
  inputs.mvm.url = "path:./mvm/nix";

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
