# mvm for users of Nix: mkGuest, the tuned guest kernel, mvm itself.
#
#   inputs.mvm.url = "git+file:///path/to/mvm?dir=nix";        packages.x86_64-linux.default = mvm.lib.mkGuest { name = "web"; … };
#
# `mvm build --flake .` makes an image of that, in a builder VM and without Nix on the host (docs/build.md).
{
  description = "microVMs for code you do not trust";

  # The last release that Debian 12's Nix (2.8) evaluates; the builder may have a newer one.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-24.11";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" ];
      forEach = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      guestMaker = pkgs: import ./lib/mk-guest.nix { inherit pkgs; };
      packagesFor = pkgs: rec {
        # Static, so that the agent in it runs in every guest.
        mvm = pkgs.pkgsStatic.callPackage ./package.nix { };
        kernel = pkgs.callPackage ./kernel/package.nix { };
        default = mvm;
      };
    in
    {
      # mkGuest takes `pkgs` too, for another nixpkgs than this flake's or another system; lib.SYSTEM.mkGuest is for one.
      lib = forEach (pkgs: { mkGuest = guestMaker pkgs; }) // {
        mkGuest = { pkgs ? nixpkgs.legacyPackages.x86_64-linux, ... }@arguments:
          guestMaker pkgs (removeAttrs arguments [ "pkgs" ]);
      };

      packages = forEach packagesFor;

      overlays.default = final: prev: {
        mvm = (packagesFor final).mvm;
        mvmKernel = (packagesFor final).kernel;
        mkMvmGuest = guestMaker final;
      };

      templates.default = {
        path = ./templates/default;
        description = "A guest for mvm: one package, one command";
      };

      # What scripts/test needs to compile: the package's own libraries, as static as there, and those of the tests.
      devShells = forEach (pkgs: {
        default = pkgs.pkgsStatic.mkShell {
          inputsFrom = [ (packagesFor pkgs).mvm ];
          packages = [ pkgs.ccache pkgs.pkgsStatic.gtest ];
        };
      });
    };
}
