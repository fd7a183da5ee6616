// Whatever stands where a kernel's files lie: no other file is touched, and nobody waits for a
// FIFO.
#include "../../support/plants.h"

#include "mvm/image/initramfs.h"
#include "mvm/image/kernel.h"

#include "scratch_store.h"

namespace mvm::image {
namespace {

class ImagePlants : public ScratchStore {
 protected:
  ImagePlants() {
    sys::make_directories(source_);
    for (const char* file : {"vmlinux", "a.ko"})
      sys::write_file_atomic(source_ + "/" + file, as_bytes(std::string_view(file)));
    sys::write_file_atomic(
        source_ + "/bundle.json",
        as_bytes(R"({"name": "plain", "image": "vmlinux", "modules": ["a.ko"]})"));
  }

  const std::string source_ = scratch_.path() + "/source";
};

TEST_F(ImagePlants, WhereAKernelIsInstalled) {
  install_kernel(paths_, source_, true);
  const std::string kernels = paths_.kernels_dir();
  for (const std::string& path :
       {kernels, kernels + "/default", kernels + "/plain", kernels + "/plain/bundle.json"}) {
    test::with_each_plant(path, [&] { install_kernel(paths_, source_, true); });
    test::with_each_plant(path, [&] { list_kernels(paths_); });
  }
  test::with_each_plant(kernels + "/plain", [&] { remove_kernel(paths_, "plain"); });
}

TEST_F(ImagePlants, WhereAKernelIsTakenFrom) {
  install_kernel(paths_, source_, true);
  const AgentBinary agent(as_bytes("agent"));
  std::vector<std::string> places{paths_.kernels_dir() + "/plain"};
  for (const std::string& name : sys::list_directory(places.front()))
    places.push_back(paths_.kernels_dir() + "/plain/" + name);
  for (const std::string& path : places)
    test::with_each_plant(
        path, [&] { ensure_initramfs(paths_, agent, resolve_kernel(paths_, std::nullopt)); });
  EXPECT_EQ(resolve_kernel(paths_, std::nullopt).name, "plain") << "all is as it was";
}

TEST_F(ImagePlants, InABundleThatIsImported) {
  for (const char* name : {"", "/bundle.json", "/vmlinux", "/a.ko"})
    test::with_each_plant(source_ + name, [&] { install_kernel(paths_, source_, false); });
  EXPECT_EQ(install_kernel(paths_, source_, false).name, "plain");
}

// Who hands somebody a bundle writes the note of its files as well. To open a device can do things.
TEST_F(ImagePlants, TheNoteOfABundlesFilesNamesFilesOfTheBundle) {
  sys::write_file_atomic(scratch_.path() + "/beside", as_bytes("beside"));
  sys::check(::symlink("/dev/null", (source_ + "/device").c_str()), "making a link");
  for (const char* named : {"../beside", "/dev/null", "device", "."}) {
    sys::write_file_atomic(source_ + "/.files.json", as_bytes(std::string(R"({")") + named +
                                                              R"(": {"size": 6, "sha256": ""}})"));
    const Error error = error_of([&] { load_bundle(source_); });
    EXPECT_TRUE(error.kind() == Kind::Invalid || error.kind() == Kind::NotFound) << named;
    EXPECT_EQ(error.message().find("bytes, not"), std::string::npos) << "it was looked at";
  }
}

}
}
