// Flakes, built by Nix: a builder's root file system with the agent in it, natively.
#include "mvm/build/build.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/sys/io.h"

#include "native.h"
#include "unit/image/erofs_reader.h"

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
}

}
