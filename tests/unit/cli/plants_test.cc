// Whatever stands where the command line makes files: no other file is touched.
#include "../../support/plants.h"

#include <variant>

#include <sys/eventfd.h>

#include "mvm/cli/actions.h"
#include "mvm/image/import.h"

#include "../../../src/cli/builder_queue.h"
#include "../../../src/cli/sandbox_builder.h"

namespace mvm::cli {
namespace {

class CliPlants : public testing::Test {
 protected:
  CliPlants() {
    paths_.ensure_data();
    sys::make_directories(at("work"));
  }
  std::string at(const std::string& name) const { return scratch_.path() + "/" + name; }

  int run(const std::vector<std::string>& words) {
    return run_command(context_, std::get<Arguments>(parse_command_line(words)));
  }

  const sys::TempDir scratch_;
  const store::Paths paths_{at("run"), at("data")};
  const sys::Fd out_ = sys::memory_file("out", 0);
  Console console_{out_.get(), out_.get(), {}};
  Context context_{console_,
                   [](std::string_view) { return std::nullopt; },
                   paths_,
                   at("work"),
                   "0.1.0",
                   []() -> api::Service& { throw Error(Kind::Internal, "no daemon takes part"); },
                   [] { return nullptr; },
                   [] { return int64_t{0}; }};
};

TEST_F(CliPlants, WhereAnImageIsWritten) {
  sys::make_directories(at("root/etc"), 0755);
  store::Images images(paths_);
  image::import_image(images, at("root"), store::parse_image_name("web"));
  for (const char* format : {"tar", "oci-archive", "oci"})
    test::with_each_plant(at("work/image"),
                          [&] { run({"image", "export", "--format", format, "web", "image"}); });
  for (const char* format : {"tar", "oci-archive"})
    test::with_each_plant(at("work/image"), [&] {
      run({"image", "export", "--force", "--format", format, "web", "image"});
    });
}

TEST_F(CliPlants, WhereAManifestIsBegun) {
  for (const char* force : {"--force", "--image=base"})
    test::with_each_plant(at("work/mvm.toml"), [&] { run({"init", force, "web"}); });
}

TEST_F(CliPlants, WhereBuildsQueue) {
  const std::string queue = paths_.data() + "/builder.queue";
  const sys::Fd interrupt(::eventfd(1, EFD_CLOEXEC));
  const auto take_turn = [&] { BuilderTurn(context_, interrupt.get()); };
  take_turn();
  test::with_each_plant(queue, take_turn);
  for (const char* name : {"/00000000000000000001", "/00000000000000000002"})
    test::with_each_plant(queue + name, take_turn);
  test::with_each_plant(paths_.builder_lock(), take_turn);
  test::with_each_plant(paths_.builder_lock(), [&] { builder_user(context_); });
}

}
}
