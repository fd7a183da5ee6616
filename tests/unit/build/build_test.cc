// Flakes, built by Nix: a builder's root file system with the agent in it, natively.
#include "mvm/build/build.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/agent/copy.h"
#include "mvm/agent/exec.h"
#include "mvm/build/source.h"
#include "mvm/crypto/hash.h"
#include "mvm/image/verify.h"
#include "mvm/sys/io.h"

#include "native.h"
#include "unit/image/erofs_reader.h"
#include "unit/image/memory_growth.h"

namespace mvm::build {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

class Flakes : public testing::Test {
 protected:
  Flakes() : builder_(base_.path()), flake_(base_.path() + "/flake") {
    sys::make_directories(flake_, 0755);
    run_program({"cp", stand_in_folder() + "/bin/bash-static", flake_ + "/sh"});
    run_program({"cp", stand_in_folder() + "/bin/busybox", flake_ + "/box"});
  }
  void write(const std::string& name, std::string_view text) {
    const std::string path = flake_ + "/" + name;
    sys::make_directories(path.substr(0, path.rfind('/')), 0755);
    sys::write_file_atomic(path, as_bytes(text), 0644);
  }
  // A flake without inputs; `outputs` may use `made NAME SCRIPT`, a derivation, and `guest NAME
  // SCRIPT`, a smallest guest whose root file system SCRIPT makes.
  void flake(const std::string& outputs, const std::string& inputs = "",
             const std::string& names = "") {
    write("flake.nix", R"({
  )" + inputs + R"(
  outputs = { self)" + names +
                           R"( }:
    let
      made = name: script: derivation {
        inherit name; system = "x86_64-linux"; builder = ./sh;
        args = [ "-euc" "box() { (exec -a busybox ${./box} \"$@\"); }\n${script}" ];
      };
      guest = name: script:
        let root = made "${name}-root" "box mkdir $out\n${script}";
        in made name ''
          box mkdir $out
          echo '{"mvm":1,"name":"${name}","root":"${root}","entrypoint":["/bin/${name}"]}' >$out/image.json
        '';
    in {
)" + outputs + "\n    };\n}\n");
  }
  void git(std::vector<std::string> words) {
    words.insert(words.begin(), {"git", "-C", flake_, "-c", "user.name=t", "-c",
                                 "user.email=t@example.org", "-c", "init.defaultBranch=main"});
    run_program(std::move(words));
  }

  Request request(const std::string& reference = ".") const {
    Request request;
    request.flake = parse_flake(reference);
    request.directory = flake_;
    request.name = "made";
    request.offline = true;
    return request;
  }
  Result build_it(const std::string& reference = ".") {
    return build(builder_, request(reference), watch_);
  }
  // What a build fails with; its words and what Nix said, together.
  std::string failure(const Request& wanted) {
    try {
      build(builder_, wanted, watch_);
    } catch (const BuildFailed& error) {
      return error.message() + "\n" + error.hint() + "\n" + error.said();
    } catch (const Error& error) {
      return error.message();
    }
    ADD_FAILURE() << "it was built";
    return "";
  }
  std::string failure(const std::string& reference = ".") { return failure(request(reference)); }
  image::ErofsReader open(const api::Image& image) {
    return image::ErofsReader(builder_.images().get(image.digest).root);
  }

  sys::TempDir base_;
  NativeBuilder builder_;
  std::string flake_;
  Watch watch_;
};

TEST_F(Flakes, WithoutInputsBecomeAnImage) {
  flake(
      R"(packages.x86_64-linux.default = guest "web" "box mkdir $out/etc; echo hello >$out/etc/motd";)");
  const Result result = build_it();
  EXPECT_FALSE(result.unchanged);
  EXPECT_THAT(result.image.names, ElementsAre("made:latest"));
  EXPECT_THAT(result.image.entrypoint, ElementsAre("/bin/web"));
  EXPECT_EQ(result.image.source_kind, "flake");
  EXPECT_EQ(open(result.image).at("etc/motd").content, "hello\n");
}

TEST_F(Flakes, AreNotBuiltAgainWhenNothingHasChanged) {
  flake(R"(packages.x86_64-linux.default = guest "web" "echo 1 >$out/x";)");
  const std::string digest = build_it().image.digest;
  EXPECT_EQ(builder_.starts, 1U);
  const Result again = build_it();
  EXPECT_TRUE(again.unchanged);
  EXPECT_EQ(again.image.digest, digest);
  EXPECT_EQ(builder_.starts, 1U);
  // Another builder may build something else; and what is made anew is the same to the byte.
  builder_.identity_ = "another";
  const Result anew = build_it();
  EXPECT_FALSE(anew.unchanged);
  EXPECT_EQ(anew.image.digest, digest);
  // A changed file is a changed flake.
  flake(R"(packages.x86_64-linux.default = guest "web" "echo 2 >$out/x";)");
  EXPECT_NE(build_it().image.digest, digest);
}

TEST_F(Flakes, HaveSeveralPackages) {
  flake(R"(packages.x86_64-linux = { web = guest "web" ""; job = guest "job" ""; };
      legacyPackages.x86_64-linux.nested.deep = guest "deep" "";)");
  EXPECT_THAT(build_it(".#web").image.entrypoint, ElementsAre("/bin/web"));
  EXPECT_THAT(build_it(".#job").image.entrypoint, ElementsAre("/bin/job"));
  EXPECT_THAT(build_it(".#nested.deep").image.entrypoint, ElementsAre("/bin/deep"));
  EXPECT_THAT(failure(".#wbe"), HasSubstr("no such package"));
  EXPECT_THAT(failure("."), HasSubstr("no such package"));  // there is no default one
}

TEST_F(Flakes, TakeInputsOfTheirOwnTreeAndOverriddenOnes) {
  flake(R"(packages.x86_64-linux.default = guest "web" "echo ${near.word} ${far.word} >$out/x";)",
        R"(inputs.near.url = "path:./near"; inputs.far.url = "github:nobody/nothing";)",
        ", near, far");
  write("near/flake.nix", R"({ outputs = { self }: { word = "near"; }; })");
  const std::string far = base_.path() + "/far";
  sys::make_directories(far, 0755);
  sys::write_file_atomic(far + "/flake.nix",
                         as_bytes(R"({ outputs = { self }: { word = "far"; }; })"));
  Request wanted = request();
  wanted.overrides = {{"far", far}};
  EXPECT_EQ(open(build(builder_, wanted, watch_).image).at("x").content, "near far\n");
  EXPECT_TRUE(build(builder_, wanted, watch_).unchanged);
  sys::write_file_atomic(far + "/flake.nix",
                         as_bytes(R"({ outputs = { self }: { word = "off"; }; })"));
  EXPECT_EQ(open(build(builder_, wanted, watch_).image).at("x").content, "near off\n");
}

// What an image says that it was made of is what it was made of.
TEST_F(Flakes, AreLabelledWithTheFoldersThatOverrideTheirLock) {
  flake(R"(packages.x86_64-linux.default = guest "web" "echo ${near.word} >$out/x";)",
        R"(inputs.near.url = "path:./near";)", ", near");
  write("near/flake.nix", R"({ outputs = { self }: { word = "near"; }; })");
  Request wanted = request();
  wanted.update_lock = true;
  const std::string locked =
      build(builder_, wanted, watch_).image.labels.at("mvm.flake.input.near");
  const std::string other = base_.path() + "/other";
  sys::make_directories(other, 0755);
  sys::write_file_atomic(other + "/flake.nix",
                         as_bytes(R"({ outputs = { self }: { word = "other"; }; })"));
  wanted.update_lock = false;
  wanted.overrides = {{"near", other}};
  const auto labels = build(builder_, wanted, watch_).image.labels;
  EXPECT_EQ(labels.at("mvm.flake.input.near"),
            "sha256:" + crypto::digest_hex(digest_of(input_source(other))));
  EXPECT_NE(labels.at("mvm.flake.input.near"), locked);
  EXPECT_TRUE(labels.contains("mvm.flake.lock"));
}

TEST_F(Flakes, NeedALockFileThatFits) {
  flake(R"(packages.x86_64-linux.default = guest "web" "echo ${near.word} >$out/x";)",
        R"(inputs.near.url = "path:./near";)", ", near");
  write("near/flake.nix", R"({ outputs = { self }: { word = "one"; }; })");
  EXPECT_THAT(failure(), HasSubstr("--update-lock"));
  EXPECT_FALSE(sys::exists(flake_ + "/flake.lock"));

  Request wanted = request();
  wanted.update_lock = true;
  const Result result = build(builder_, wanted, watch_);
  EXPECT_TRUE(result.lock_changed);
  EXPECT_THAT(sys::read_text_file(flake_ + "/flake.lock", 1 << 20), HasSubstr("\"near\""));
  EXPECT_THAT(result.image.labels, Contains(Pair("mvm.flake.lock", HasSubstr("sha256:"))));
  EXPECT_THAT(result.image.labels, Contains(Pair("mvm.flake.input.near", HasSubstr("sha256-"))));
  EXPECT_TRUE(build_it().unchanged);
  EXPECT_FALSE(build(builder_, wanted, watch_).lock_changed);

  // An input more than the lock file knows.
  flake(R"(packages.x86_64-linux.default = guest "web" "echo ${near.word} ${two.word} >$out/x";)",
        R"(inputs.near.url = "path:./near"; inputs.two.url = "path:./near";)", ", near, two");
  EXPECT_THAT(failure(), HasSubstr("flake.lock does not fit"));
}

TEST_F(Flakes, SayWhereTheyCannotBeEvaluated) {
  flake("packages.x86_64-linux.default = guest \"web\" \"\" // { a = b; };");
  const std::string said = failure();
  EXPECT_THAT(said, HasSubstr("undefined variable 'b'"));
  // The place as it is called here, not in the builder.
  EXPECT_THAT(said, HasSubstr(flake_ + "/flake.nix:16:"));
  EXPECT_THAT(said, Not(HasSubstr("/nix/store")));
  write("flake.nix", "{ outputs = { self }: {");
  EXPECT_THAT(failure(), HasSubstr("syntax error"));
}

TEST_F(Flakes, ShowTheLastLinesOfABuildThatFails) {
  flake(
      R"(packages.x86_64-linux.default = guest "web" "i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done; exit 7";)");
  const std::string said = failure();
  EXPECT_THAT(said, HasSubstr("web-root.drv"));
  EXPECT_THAT(said, HasSubstr("line 99"));
  EXPECT_THAT(said, Not(HasSubstr("line 10\n")));
  EXPECT_THAT(said, HasSubstr("nix log /nix/store/"));
  EXPECT_THAT(said, HasSubstr("`mvm build " + flake_ + " --flake . --name made -v`"));
}

TEST_F(Flakes, AreEndedWithTheirTime) {
  flake(R"(packages.x86_64-linux.default = guest "web" "while :; do :; done";)");
  Request wanted = request();
  wanted.timeout = std::chrono::milliseconds(3000);
  EXPECT_THAT(failure(wanted), HasSubstr("longer than 3s"));
}

TEST_F(Flakes, HaveOneTimeForAllTheirSteps) {
  flake(R"(packages.x86_64-linux.default = guest "web" "";)");
  constexpr uint64_t kHourMs = 3'600'000;
  Request wanted = request();
  wanted.timeout = std::chrono::milliseconds(kHourMs);
  build(builder_, wanted, watch_);
  // Writing the image gets what building it has left.
  EXPECT_GT(builder_.capture_limit_ms, 0U);
  EXPECT_LT(builder_.capture_limit_ms, kHourMs);
}

TEST_F(Flakes, AreEndedByAnInterruptAndTheNextOneIsBuilt) {
  flake(R"(packages.x86_64-linux.default = guest "web" "echo running; while :; do :; done";)");
  const sys::Fd interrupt = sys::event_fd();
  builder_.interrupt = interrupt.get();
  Request wanted = request();
  wanted.verbose = true;
  watch_.log = [&](std::string_view text) {
    if (text.find("running") != text.npos) sys::signal_event(interrupt.get());
  };
  EXPECT_THAT(failure(wanted), HasSubstr("interrupted"));
  watch_.log = {};
  builder_.stop();  // waits for the agent, which waits for what it runs
  builder_.interrupt = -1;
  flake(R"(packages.x86_64-linux.default = guest "web" "echo fine >$out/x";)");
  EXPECT_EQ(open(build_it().image).at("x").content, "fine\n");
}

TEST_F(Flakes, ReachNothingWithoutANetwork) {
  flake(R"(packages.x86_64-linux.default = derivation {
        name = "got"; system = "builtin"; builder = "builtin:fetchurl"; url = "http://example.org/x";
        outputHashMode = "flat"; outputHashAlgo = "sha256";
        outputHash = "0000000000000000000000000000000000000000000000000000000000000000";
      };)");
  const std::string said = failure();
  EXPECT_THAT(said, HasSubstr("could not be fetched"));
  EXPECT_THAT(said, HasSubstr("http://example.org/x"));
}

TEST_F(Flakes, AreTakenAsGitTracksThem) {
  flake(
      R"(packages.x86_64-linux.default = guest "web" "cd ${self}; box cp -R . $out/seen; echo ${self.rev or "dirty"} ${self.shortRev or "dirty"} ${toString (self.revCount or "uncounted")} ${toString self.lastModified} >$out/rev";)");
  write("known", "one\n");
  write("secret.env", "TOKEN=none\n");
  write(".gitignore", "secret.env\n");
  git({"init", "-q"});
  EXPECT_THAT(failure(), HasSubstr("git add flake.nix"));
  git({"add", "flake.nix", "sh", "box", ".gitignore", "known"});
  git({"commit", "-qm", "one", "--date=@1700000000"});
  write("new", "not yet known to git\n");
  const auto clean = open(build_it().image);
  EXPECT_TRUE(clean.files.contains("seen/known"));
  EXPECT_FALSE(clean.files.contains("seen/new"));
  EXPECT_FALSE(clean.files.contains("seen/secret.env"));
  EXPECT_FALSE(clean.files.contains("seen/.git"));
  const std::string head = run_program({"git", "-C", flake_, "log", "-1", "--format=%H %ct"});
  const std::string time = head.substr(41);  // and a line's end
  EXPECT_EQ(clean.at("rev").content, head.substr(0, 41) + head.substr(0, 7) + " 1 " + time);

  // A dirty tree: what is tracked counts as it is now, what was deleted does not.
  write("known", "two\n");
  git({"add", "new"});
  ASSERT_EQ(::unlink((flake_ + "/.gitignore").c_str()), 0);
  const auto dirty = open(build_it().image);
  EXPECT_EQ(dirty.at("seen/known").content, "two\n");
  EXPECT_TRUE(dirty.files.contains("seen/new"));
  EXPECT_FALSE(dirty.files.contains("seen/.gitignore"));
  // Of the commit below, as Nix has it.
  EXPECT_EQ(dirty.at("rev").content, "dirty dirty uncounted " + time);
}

TEST_F(Flakes, OfAShallowCloneHaveARevisionAndNoCount) {
  flake(
      R"(packages.x86_64-linux.default = guest "web" "echo ${self.shortRev} ${toString (self.revCount or "uncounted")} >$out/rev";)");
  git({"init", "-q"});
  git({"add", "."});
  git({"commit", "-qm", "one"});
  git({"commit", "-qm", "two", "--allow-empty"});
  const std::string revision =
      run_program({"git", "-C", flake_, "log", "-1", "--format=%h", "--abbrev=7"});
  const std::string whole = flake_;
  EXPECT_EQ(open(build_it().image).at("rev").content, revision.substr(0, 7) + " 2\n");
  flake_ = base_.path() + "/shallow";
  run_program({"git", "clone", "-q", "--depth=1", "file://" + whole, flake_});
  // The same files at the same revision: what was built of them is taken as it is.
  EXPECT_TRUE(build_it().unchanged);
  builder_.identity_ = "another";
  EXPECT_EQ(open(build_it().image).at("rev").content, revision.substr(0, 7) + " uncounted\n");
}

TEST_F(Flakes, MissAFileThatGitDoesNotTrack) {
  flake(R"(packages.x86_64-linux.default = guest "web" "box cp ${./new} $out/new";)");
  git({"init", "-q"});
  git({"add", "."});
  write("new", "x\n");
  const std::string said = failure();
  EXPECT_THAT(said, HasSubstr("new is not tracked by git, so it is no part of the flake"));
  EXPECT_THAT(said, HasSubstr("git add new"));
  git({"add", "new"});
  EXPECT_EQ(open(build_it().image).at("new").content, "x\n");
}

TEST_F(Flakes, HaveTheFilesOfSubmodulesWhenAskedFor) {
  const std::string part = base_.path() + "/part";
  sys::make_directories(part, 0755);
  sys::write_file_atomic(part + "/word", as_bytes("of the part\n"), 0644);
  const std::string whole = flake_;
  flake_ = part;
  git({"init", "-q"});
  git({"add", "."});
  git({"commit", "-qm", "part"});
  flake_ = whole;
  flake(
      R"(packages.x86_64-linux.default = guest "web" "cd ${self}; box cp -R . $out/seen; echo ${self.rev or "dirty"} >$out/rev";)");
  git({"init", "-q"});
  git({"-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "file://" + part,
       "part"});
  git({"add", "."});
  git({"commit", "-qm", "one"});
  EXPECT_FALSE(open(build_it().image).files.contains("seen/part/word"));
  const auto with = open(build_it(".?submodules=1").image);
  EXPECT_EQ(with.at("seen/part/word").content, "of the part\n");
  EXPECT_FALSE(with.files.contains("seen/part/.git"));
  EXPECT_EQ(with.at("rev").content.size(), 41U);
  // What is changed in it counts, and is no revision any more.
  write("part/word", "changed\n");
  const auto dirty = open(build_it(".?submodules=1").image);
  EXPECT_EQ(dirty.at("seen/part/word").content, "changed\n");
  EXPECT_EQ(dirty.at("rev").content, "dirty\n");
}

TEST_F(Flakes, MayLieBelowTheTopOfARepository) {
  write("known", "top\n");
  write("guest/flake.nix", R"({ outputs = { self }: { packages.x86_64-linux.default =
    derivation { name = "g"; system = "x86_64-linux"; builder = ../sh; args = ["-euc" ''
      (exec -a busybox ${../box} mkdir $out)
      echo '{"mvm":1,"root":"${../known}"}' >$out/image.json
    ''];}; }; })");
  git({"init", "-q"});
  git({"add", "."});
  git({"commit", "-qm", "one"});
  // Found from below it, and said from the top.
  sys::make_directories(flake_ + "/guest/sub", 0755);
  // Built, and then: a file is no root file system.
  EXPECT_THAT(failure("./guest/sub"), HasSubstr("known: Cannot open"));
  EXPECT_THAT(failure(".?dir=guest"), HasSubstr("known: Cannot open"));
}

TEST_F(Flakes, KeepNamesLinksAndWhatMayBeExecuted) {
  flake(R"(packages.x86_64-linux.default = guest "web" "cd ${self}; box cp -R . $out/seen";)");
  write("gr\xc3\xbc\xc3\x9f e/\xe2\x98\x83", "snow\n");
  write("tool", "#!/bin/sh\n");
  ASSERT_EQ(::chmod((flake_ + "/tool").c_str(), 0711), 0);
  ASSERT_EQ(::symlink("tool", (flake_ + "/link").c_str()), 0);
  ASSERT_EQ(::symlink("/nowhere/at/all", (flake_ + "/dangling").c_str()), 0);
  ASSERT_EQ(::mkfifo((flake_ + "/pipe").c_str(), 0600), 0);  // is left out
  const auto image = open(build_it().image);
  EXPECT_EQ(image.at("seen/gr\xc3\xbc\xc3\x9f e/\xe2\x98\x83").content, "snow\n");
  EXPECT_EQ(image.at("seen/tool").mode & 0111, 0111);
  EXPECT_EQ(image.at("seen/link").content, "tool");
  EXPECT_EQ(image.at("seen/dangling").content, "/nowhere/at/all");
  EXPECT_FALSE(image.files.contains("seen/pipe"));
}

TEST_F(Flakes, ThatMakeNoGuestAreToldOfMkGuest) {
  flake(R"(packages.x86_64-linux = { default = made "plain" "echo >$out";
      new = made "new" "box mkdir $out; echo '{\"mvm\":9}' >$out/image.json";
      odd = made "odd" "box mkdir $out; echo '{\"mvm\":1,\"root\":\"/etc\"}' >$out/image.json"; };)");
  EXPECT_THAT(failure(), HasSubstr("mkGuest"));
  EXPECT_THAT(failure(".#new"), HasSubstr("format 9"));
  EXPECT_THAT(failure(".#odd"), HasSubstr("store path"));
}

TEST_F(Flakes, ThatAreNotThereAreNamed) {
  EXPECT_THAT(failure("."), HasSubstr("there is no flake.nix in"));
  EXPECT_THAT(failure("./missing"), HasSubstr("missing"));
}

TEST(SmallDisk, FullIsSaid) {
  sys::TempDir base;
  NativeBuilder builder(base.path(), uint64_t{48} << 20);
  const std::string folder = base.path() + "/flake";
  sys::make_directories(folder, 0755);
  run_program(
      {"cp", stand_in_folder() + "/bin/bash-static", stand_in_folder() + "/bin/busybox", folder});
  sys::write_file_atomic(folder + "/flake.nix", as_bytes(R"({ outputs = { self }: {
    packages.x86_64-linux.default = derivation { name = "big"; system = "x86_64-linux";
      builder = ./bash-static; args = ["-euc"
        "(exec -a busybox ${./busybox} dd if=/dev/zero of=$out bs=1M count=100) "];
};
};
})"));
  Request wanted;
  wanted.flake = parse_flake(".");
  wanted.directory = folder;
  wanted.name = "big";
  wanted.offline = true;
  try {
    build(builder, wanted, {});
    FAIL() << "it was built";
  } catch (const BuildFailed& error) {
    EXPECT_THAT(error.message(), HasSubstr("disk is full"));
    EXPECT_THAT(error.hint(), HasSubstr("mvm builder gc"));
  }
}

// Of holes, which cost neither random bytes nor 2 GiB of the builder's disk; tar reads them as
// zeros. What is left is the image, written and read once: 12 s of a quiet machine's two
// processors.
TEST_F(Flakes, OfTwoGibibytesAreTakenWhole) {
  if (!image::kMeasured) GTEST_SKIP() << "a sanitizer's memory is not measured, and it is slow";
  flake(
      R"(packages.x86_64-linux.default = guest "big" "for n in 1 2 3 4 5 6 7 8; do echo $n >$out/part$n; box truncate -s 256M $out/part$n; done";)");
  Result made;
  const uint64_t growth = image::growth_of([&] { made = build_it(); });
  EXPECT_LT(growth, image::kMostGrowth);
  EXPECT_GE(made.image.content_bytes, uint64_t{2} << 30);
  EXPECT_NO_THROW(image::verify_image(builder_.images(), made.image.digest));
}

// ---- nix/flake.nix, with the stand-in for nixpkgs

class Guests : public Flakes {
 protected:
  void guest(const std::string& arguments) {
    write("flake.nix", R"({
      inputs.mvm.url = "path:./mvm"; inputs.nixpkgs.url = "path:./nixpkgs";
      outputs = { self, mvm, nixpkgs }:
        let pkgs = nixpkgs.legacyPackages.x86_64-linux; in {
          packages.x86_64-linux.default = mvm.lib.x86_64-linux.mkGuest {)" +
                           arguments + R"(};
        };
    })");
  }
  Request request() {
    // A copy: the tree may be a git repository whose other half is elsewhere.
    const std::string copy = base_.path() + "/mvm-flake";
    if (!sys::exists(copy)) run_program({"cp", "-R", MVM_NIX, copy});
    Request wanted = Flakes::request();
    wanted.overrides = {
        {"mvm", copy}, {"nixpkgs", stand_in_folder()}, {"mvm/nixpkgs", stand_in_folder()}};
    return wanted;
  }
};

TEST_F(Guests, AreWholeRootFileSystems) {
  guest(R"(name = "agent"; user = "agent"; env.WORD = "x"; entrypoint = [ "serve" "a b" ];
           packages = [ (pkgs.writeShellScriptBin "serve" "echo serving") ];
           files."/etc/a.conf" = "text\n";
           files."/srv/it's here" = { text = "kept"; mode = "0640"; uid = 1000; gid = 1000; };
           healthcheck = { command = "test -e /srv"; interval = 5; };
           labels.team = "search";)");
  const Result result = build(builder_, request(), watch_);
  EXPECT_EQ(result.image.user, "agent");
  EXPECT_EQ(result.image.workdir, "/home/agent");
  EXPECT_THAT(result.image.entrypoint, ElementsAre("serve", "a b"));
  EXPECT_THAT(result.image.env, Contains("WORD=x"));
  EXPECT_THAT(result.image.env, Contains("PATH=/bin"));
  EXPECT_THAT(result.image.labels, Contains(Pair("team", "search")));
  EXPECT_EQ(result.image.health, (proto::HealthCheck{{"/bin/sh", "-c", "test -e /srv"}, 5'000}));
  const auto image = open(result.image);
  EXPECT_EQ(image.at("home/agent").uid, 1000U);
  EXPECT_EQ(image.at("tmp").mode & 07777, 01777);
  EXPECT_EQ(image.at("etc/a.conf").mode & 07777, 0644);
  EXPECT_EQ(image.at("srv/it's here").mode & 07777, 0640);
  EXPECT_EQ(image.at("srv/it's here").uid, 1000U);
  EXPECT_THAT(image.at("etc/passwd").content,
              HasSubstr("agent:x:1000:1000:agent:/home/agent:/bin/sh"));
  // /bin leads into the closure, which is there.
  const std::string bin = image.at("bin").content;
  const std::string serve = image.at(bin.substr(1) + "/serve").content;
  EXPECT_THAT(image.at(serve.substr(1)).content, HasSubstr("echo serving"));
  EXPECT_TRUE(build(builder_, request(), watch_).unchanged);
}

TEST_F(Guests, RunServicesBesideTheirEntrypoint) {
  guest(R"(name = "two"; entrypoint = "exec sleep 60";
           services.web = { command = [ "httpd" "-f" ]; env.PORT = "80"; };
           services.once = { command = "true"; restart = false; };)");
  const Result result = build(builder_, request(), watch_);
  EXPECT_THAT(result.image.entrypoint,
              ElementsAre("/bin/mvm-start", "/bin/sh", "-c", "exec sleep 60"));
  const auto image = open(result.image);
  const std::string start = image.at(image.at("bin").content.substr(1) + "/mvm-start").content;
  const std::string script = image.at(start.substr(1)).content;
  EXPECT_THAT(script, HasSubstr("service web 1 env 'PORT=80' 'httpd' '-f' &"));
  EXPECT_THAT(script, HasSubstr("service once 0 env '/bin/sh' '-c' 'true' &"));
}

TEST_F(Guests, MayBringAKernel) {
  guest(R"(name = "k"; kernel = pkgs.runCommand "kernel" { } ''
      mkdir $out
      echo '{"name":"mine","image":"vmlinux","modules":[]}' >$out/bundle.json
      echo >$out/vmlinux
    '';)");
  const Result result = build(builder_, request(), watch_);
  EXPECT_EQ(result.kernel, "kernel");
  ASSERT_EQ(builder_.kernels.size(), 1U);
  EXPECT_THAT(builder_.kernels[0], HasSubstr("mine"));
  EXPECT_EQ(builder_.images().get(result.image.digest).manifest.config.kernel, "kernel");
}

TEST_F(Guests, SayWhatIsWrongWithTheirArguments) {
  guest(R"(name = "a"; files."etc/x" = "relative";)");
  EXPECT_THAT(failure(request()), HasSubstr("no absolute path"));
  guest(R"(name = "a"; files."/nix/x" = "not its own";)");
  EXPECT_THAT(failure(request()), HasSubstr("not its own"));
  guest(R"(name = "a b";)");
  EXPECT_THAT(failure(request()), HasSubstr("name must be"));
  guest(R"(name = "a"; package = [ ];)");
  EXPECT_THAT(failure(request()), HasSubstr("unexpected argument 'package'"));
  guest(R"(name = "a"; entrypoint = 7;)");
  EXPECT_THAT(failure(request()), HasSubstr("entrypoint must be a list of words"));
}

// As a user has it who begins with it, and with a checkout of mvm beside it.
TEST_F(Guests, BeginWithTheTemplate) {
  sys::make_directories(flake_ + "/mvm", 0755);
  run_program({"cp", "-R", MVM_NIX, flake_ + "/mvm/nix"});
  run_program({"cp", std::string(MVM_NIX) + "/templates/default/flake.nix", flake_});
  Request wanted = Flakes::request();
  wanted.overrides = {{"mvm/nixpkgs", stand_in_folder()}};
  wanted.update_lock = true;
  const Result result = build(builder_, wanted, watch_);
  EXPECT_TRUE(result.lock_changed);
  EXPECT_EQ(result.image.user, "agent");
  EXPECT_THAT(result.image.entrypoint, ElementsAre("python3", "-c", HasSubstr("hello")));
}

TEST_F(Guests, AndAllElseOfTheFlakeIsEvaluated) {
  agent::Connection& connection = builder_.connection();
  const auto put = [&](const std::string& from, const std::string& to) {
    agent::put(connection, from + "/.", to, {.make_parents = true});
  };
  put(MVM_NIX, "/build/mvm-flake");
  put(stand_in_folder(), "/build/stand-in");
  const auto said_by = [&](std::vector<std::string> argv) {
    proto::ExecRequest exec;
    exec.env = {{"USER", "root"}};
    exec.argv = std::move(argv);
    for (const char* word : {"--offline", "--override-input", "nixpkgs", "path:/build/stand-in"})
      exec.argv.emplace_back(word);
    std::string said;
    const auto result = agent::run_command(
        connection, exec, [&](agent::Stream, ByteView data) { said += as_text(data); });
    EXPECT_EQ(result.exit_code, 0) << said;
    return said;
  };
  const std::string shown = said_by({"nix", "flake", "show", "path:/build/mvm-flake"});
  for (const char* part :
       {"mvm-guest-kernel", "mvm-0.1.0", "devShells", "Nixpkgs overlay", "template"})
    EXPECT_THAT(shown, HasSubstr(part));
  EXPECT_THAT(
      said_by(
          {"nix", "eval", "--json", "--impure", "path:/build/mvm-flake#overlays.default", "--apply",
           "overlay: let prev = (builtins.getFlake path:/build/stand-in)"
           ".legacyPackages.x86_64-linux; final = prev // overlay final prev; in "
           "[ final.mvm.name final.mvmKernel.name (final.mkMvmGuest { name = \"g\"; }).name ]"}),
      HasSubstr(R"(["mvm-0.1.0","mvm-guest-kernel-6.12","mvm-guest-g"])"));
}
}
