// How long `mvm build` takes when nothing has changed: the whole command, with a daemon that runs.
//   build_unchanged MVM [ROUNDS]
//
// The image is really built first, by Nix in the builder's root file system (unit/build/native.h),
// from a git repository of 2000 files with the stand-in for nixpkgs; then MVM is asked for it,
// finds it by its sources, and the builder is not started. Prints the median in milliseconds.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "mvm/base/text.h"
#include "mvm/sys/file.h"

#include "unit/build/native.h"

using namespace mvm;
using namespace mvm::build;

static void write(const std::string& path, std::string_view text) {
  sys::write_file_atomic(path, as_bytes(text), 0644);
}

static void make_flake(const std::string& folder) {
  constexpr int kFolders = 20;
  constexpr int kFiles = 100;
  constexpr size_t kBytes = 6000;
  sys::make_directories(folder, 0755);
  write(folder + "/flake.nix", R"({
    inputs.mvm.url = "path:./mvm"; inputs.nixpkgs.url = "path:./nixpkgs";
    outputs = { self, mvm, nixpkgs }: { packages.x86_64-linux.default = mvm.lib.mkGuest {
      pkgs = nixpkgs.legacyPackages.x86_64-linux; name = "web"; entrypoint = "echo hello"; }; };
  })");
  for (int i = 0; i < kFolders; ++i) {
    const std::string below = folder + "/src" + std::to_string(i);
    sys::make_directories(below, 0755);
    for (int j = 0; j < kFiles; ++j)
      write(below + "/file" + std::to_string(j),
            std::string(kBytes, static_cast<char>('a' + j % 26)));
  }
  for (std::vector<std::string> words :
       {std::vector<std::string>{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "all"}}) {
    words.insert(words.begin(),
                 {"git", "-C", folder, "-c", "user.name=b", "-c", "user.email=b@example.org"});
    run_program(std::move(words));
  }
}

static int run(const std::string& mvm, int rounds) {
  const sys::TempDir base;
  ::setenv("MVM_DATA_DIR", (base.path() + "/data").c_str(), 1);
  ::setenv("MVM_RUNTIME_DIR", (base.path() + "/runtime").c_str(), 1);
  const std::string folder = base.path() + "/flake";
  make_flake(folder);
  const std::string copy = base.path() + "/of-mvm";
  run_program({"cp", "-R", MVM_NIX, copy});

  NativeBuilder builder(base.path());
  run_program({mvm, "image", "import", "-q", folder, "mvm-builder"});  // what it is matters not
  builder.identity_ = builder.images().get("mvm-builder").digest;
  Request request;
  request.flake = parse_flake(".");
  request.directory = folder;
  request.name = "web";
  request.offline = true;
  request.overrides = {
      {"mvm", copy}, {"nixpkgs", stand_in_folder()}, {"mvm/nixpkgs", stand_in_folder()}};
  mvm::build::build(builder, request, {});
  builder.stop();

  std::vector<double> times;
  for (int round = 0; round <= rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const std::string said =
        run_program({mvm, "build", folder, "--name", "web", "--json", "--override-input",
                     "mvm=" + copy, "--override-input", "nixpkgs=" + stand_in_folder(),
                     "--override-input", "mvm/nixpkgs=" + stand_in_folder()});
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (said.find("\"unchanged\":true") == said.npos)
      throw Error(Kind::Internal, "it was built again: " + said);
    if (round > 0) times.push_back(took.count());  // the first reads the files from the disk
  }
  run_program({mvm, "daemon", "stop"});
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                   times.end());
  std::printf("%.1f\n", times[times.size() / 2]);
  return 0;
}

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw Error(Kind::Invalid, "usage: build_unchanged MVM [ROUNDS]");
    return run(argv[1], argc > 2 ? std::max(1, std::atoi(argv[2])) : 21);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "build_unchanged: %s\n", error.what());
    return 1;
  }
}
