#include "mvm/image/kernel.h"

#include "mvm/image/initramfs.h"

#include "scratch_store.h"

namespace mvm::image {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KernelTest : public ScratchStore {
 protected:
  std::string bundle(const std::string& name, const std::string& json) {
    const std::string path = scratch_.path() + "/" + name;
    sys::make_directories(path + "/modules");
    for (const char* file : {"vmlinux", "modules/a.ko", "modules/b.ko"})
      sys::write_file_atomic(path + "/" + file, as_bytes(name + " " + file));
    sys::write_file_atomic(path + "/bundle.json", as_bytes(json));
    return path;
  }
  std::string good(const std::string& name) {
    return bundle(name, R"({"name":")" + name +
                            R"(","image":"vmlinux","modules":["modules/b.ko","modules/a.ko"]})");
  }
};

TEST_F(KernelTest, ABundleIsReadInItsOrder) {
  const KernelBundle kernel = load_bundle(good("k"));
  EXPECT_EQ(kernel.name, "k");
  EXPECT_EQ(kernel.image, scratch_.path() + "/k/vmlinux");
  EXPECT_THAT(kernel.modules, ElementsAre(scratch_.path() + "/k/modules/b.ko",
                                          scratch_.path() + "/k/modules/a.ko"));
}

TEST_F(KernelTest, PathsThatLeaveTheBundleAreRefused) {
  for (const char* path :
       {"../vmlinux", "/etc/passwd", "modules/../../x", "", "./vmlinux", "a//b"}) {
    const std::string directory =
        bundle("k", std::string(R"({"name":"k","image":")") + path + R"("})");
    EXPECT_EQ(error_of([&] { load_bundle(directory); }).kind(), Kind::Invalid) << path;
  }
}

TEST_F(KernelTest, BrokenDescriptionsAreNamed) {
  for (const char* json :
       {"", "[]", "{", R"({"name":"k"})", R"({"name":5,"image":"vmlinux"})",
        R"({"name":"a/b","image":"vmlinux"})", R"({"name":"k","image":"vmlinux","modules":"x"})"}) {
    const Error error = error_of([&] { load_bundle(bundle("k", json)); });
    EXPECT_EQ(error.kind(), Kind::Invalid) << json;
    EXPECT_THAT(error.message(), HasSubstr("bundle.json")) << json;
  }
  EXPECT_EQ(error_of([&] { load_bundle(bundle("k", R"({"name":"k","image":"nothing"})")); }).kind(),
            Kind::NotFound);
}

TEST_F(KernelTest, TheFirstInstalledIsTheDefaultUntilToldOtherwise) {
  install_kernel(paths_, good("debian"));
  install_kernel(paths_, good("tuned-6.1"));
  EXPECT_EQ(resolve_kernel(paths_, std::nullopt).name, "debian");
  install_kernel(paths_, good("tuned-6.1"), true);
  const KernelBundle kernel = resolve_kernel(paths_, std::nullopt);
  EXPECT_EQ(kernel.name, "tuned-6.1");
  EXPECT_EQ(sys::read_text_file(kernel.modules[0], 100), "tuned-6.1 modules/b.ko");
  EXPECT_EQ(resolve_kernel(paths_, "debian").name, "debian");
  const auto kernels = list_kernels(paths_);
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_FALSE(kernels[0].is_default);
  EXPECT_TRUE(kernels[1].is_default);
}

TEST_F(KernelTest, InstallingAgainReplacesWhole) {
  install_kernel(paths_, good("k"));
  const std::string other = bundle("other", R"({"name":"k","image":"vmlinux"})");
  const KernelBundle kernel = install_kernel(paths_, other);
  EXPECT_THAT(kernel.modules, ElementsAre());
  EXPECT_EQ(sys::read_text_file(kernel.image, 100), "other vmlinux");
  EXPECT_THAT(sys::list_directory(paths_.kernels_dir()), ElementsAre("default", "k"));
}

TEST_F(KernelTest, WithoutOneTheErrorSaysWhatToRun) {
  const Error error = error_of([&] { resolve_kernel(paths_, std::nullopt); });
  EXPECT_EQ(error.kind(), Kind::NotFound);
  EXPECT_THAT(error.message(), HasSubstr("scripts/build-guest-kernel"));
  install_kernel(paths_, good("debian"));
  EXPECT_THAT(error_of([&] { resolve_kernel(paths_, "debain"); }).message(),
              HasSubstr("did you mean debian?"));
}

TEST_F(KernelTest, APathIsABundleOrAnImage) {
  const std::string directory = good("k");
  EXPECT_EQ(resolve_kernel(paths_, directory).modules.size(), 2U);
  const KernelBundle kernel = resolve_kernel(paths_, directory + "/vmlinux");
  EXPECT_EQ(kernel.image, directory + "/vmlinux");
  EXPECT_TRUE(kernel.modules.empty());
  EXPECT_EQ(error_of([&] { resolve_kernel(paths_, "/nonexistent/k"); }).kind(), Kind::NotFound);
}

TEST_F(KernelTest, ADamagedInstalledBundleIsReportedNotFatal) {
  install_kernel(paths_, good("good"));
  install_kernel(paths_, good("bad"));
  sys::write_file_atomic(paths_.kernels_dir() + "/bad/bundle.json", as_bytes("{"));
  std::vector<std::string> problems;
  EXPECT_EQ(list_kernels(paths_, &problems).size(), 1U);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("/bad/bundle.json")));
}

TEST_F(KernelTest, AnInitramfsIsMadeOnceForEachAgentAndKernel) {
  const KernelBundle kernel = install_kernel(paths_, good("k"));
  const std::string first = ensure_initramfs(paths_, AgentBinary(as_bytes("agent")), kernel);
  EXPECT_EQ(ensure_initramfs(paths_, AgentBinary(as_bytes("agent")), kernel), first);
  EXPECT_NE(ensure_initramfs(paths_, AgentBinary(as_bytes("other")), kernel), first);
  EXPECT_NE(
      ensure_initramfs(paths_, AgentBinary(as_bytes("agent")), {"none", "", kernel.image, {}}),
      first);
  install_kernel(paths_,
                 bundle("k", R"({"name":"k","image":"vmlinux","modules":["modules/a.ko"]})"));
  EXPECT_NE(ensure_initramfs(paths_, AgentBinary(as_bytes("agent")),
                             load_bundle(paths_.kernels_dir() + "/k")),
            first);
}

}
}
