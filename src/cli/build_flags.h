#pragma once
// What the commands about flakes take, for the table of commands.cc.

#include <array>
#include <string_view>

#include "mvm/cli/command.h"

#include "shared_flags.h"

namespace mvm::cli {

inline constexpr Option kFlake{0,
                               "flake",
                               "",
                               "REF",
                               "Flake to build the image from: ., ./guest#web, github:owner/repo.",
                               false,
                               false,
                               Offer::Files};
inline constexpr std::array kBuildPositionals = {Positional{
    "DIR", "Folder of the flake and of mvm.toml. Default: this one.", false, false, Offer::Files}};
inline constexpr std::array kBuildOptions = {
    Option{0, "flake", "", "REF[#NAME]",
           "The flake, and which of its packages. Default: the manifest's, else the one in DIR."},
    Option{0, "package", "profile", "NAME", "Which of its packages, as #NAME. Default: default."},
    Option{0, "name", "", "NAME", "Name of the image. Default: the manifest's, else the folder's."},
    Option{0, "override-input", "", "INPUT=FOLDER",
           "Take this input of the flake from a folder here. May be given many times.", true},
    Option{0, "update-lock", "", "", "Bring flake.lock up to date first, and write it."},
    Option{0, "watch", "", "", "Build again whenever the source changes, until Ctrl-C."},
    Option{0, "timeout", "", "DURATION", "End the build after this time; exit code 124."},
    Option{'v', "verbose", "", "", "Print what Nix and the builds say."},
    kQuiet,
    kJson,
};
inline constexpr std::array<std::string_view, 6> kBuildExamples = {
    "mvm build",
    "mvm build --watch",
    "mvm build --flake .#web --name web",
    "mvm build ./guest -v --timeout 30m",
    "mvm build --flake github:owner/repo#agent --name agent",
    "mvm build --override-input nixpkgs=../nixpkgs"};
inline constexpr std::array<std::string_view, 2> kBuilderStatusExamples = {
    "mvm builder status", "mvm builder status --json"};
inline constexpr std::array<std::string_view, 1> kBuilderShellExamples = {"mvm builder shell"};
inline constexpr std::array<std::string_view, 1> kBuilderCollectExamples = {"mvm builder gc"};
inline constexpr std::array<std::string_view, 1> kBuilderResetExamples = {"mvm builder reset"};
inline constexpr std::array kBuilderOptions = {kQuiet};

}
