#include "mvm/image/kernel.h"

#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/image/initramfs.h"

#include "scratch_store.h"

namespace mvm::image {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

// Whose image is built takes no other's kernel from under it.
TEST_F(KernelTest, OneThatCameWithAnImageTakesNoOthersPlace) {
  const KernelBundle first = install_image_kernel(paths_, good("k"));
  EXPECT_THAT(first.name, testing::MatchesRegex("k-[0-9a-f]{16}"));
  EXPECT_EQ(error_of([&] { resolve_kernel(paths_, "k"); }).kind(), Kind::NotFound);
  EXPECT_FALSE(list_kernels(paths_).at(0).is_default);
  install_kernel(paths_, good("k"));
  EXPECT_EQ(resolve_kernel(paths_, std::nullopt).name, "k");
  const KernelBundle again = install_image_kernel(paths_, good("k"));
  EXPECT_EQ(again.name, first.name);
  EXPECT_EQ(again.directory, paths_.kernels_dir() + "/" + first.name);
  EXPECT_EQ(resolve_kernel(paths_, first.name).modules.size(), 2U);
  EXPECT_NO_THROW(verify_bundle(again));
  EXPECT_EQ(sys::read_text_file(resolve_kernel(paths_, "k").image, 100), "k vmlinux");
  // Another content, order or list of modules is another kernel.
  sys::write_file_atomic(scratch_.path() + "/k/modules/a.ko", as_bytes("changed"));
  const KernelBundle changed = install_image_kernel(paths_, scratch_.path() + "/k");
  EXPECT_NE(changed.name, first.name);
  const KernelBundle fewer =
      install_image_kernel(paths_, bundle("k", R"({"name":"k","image":"vmlinux"})"));
  EXPECT_NE(fewer.name, first.name);
  EXPECT_NE(fewer.name, changed.name);
  const std::string longest(kMaxName, 'n');
  EXPECT_EQ(install_image_kernel(paths_, good(longest)).name.size(), kMaxName);
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
  for (const char* text : {"", "{", "[]", "7", R"({"name":"bad"})"}) {
    sys::write_file_atomic(paths_.kernels_dir() + "/bad/bundle.json", as_bytes(text));
    const auto kernels = list_kernels(paths_);
    ASSERT_EQ(kernels.size(), 2U);
    EXPECT_EQ(kernels[0].bundle.name, "bad");
    EXPECT_THAT(kernels[0].problem,
                AllOf(HasSubstr("/bad/bundle.json"), Not(HasSubstr("exception"))))
        << text;
    EXPECT_EQ(kernels[1].problem, "");
  }
  remove_kernel(paths_, "bad");
  EXPECT_EQ(list_kernels(paths_).size(), 1U);
}

// A kernel of 0 bytes must not be taken for one.
TEST_F(KernelTest, AFileThatChangedItsSizeSinceIsRefusedAndMendedByImportingAgain) {
  for (const char* file : {"vmlinux", "modules/a.ko", "bundle.json"}) {
    const std::string path = install_kernel(paths_, good("k")).directory + "/" + file;
    for (const off_t size : {0, 3, 4000}) {
      ASSERT_EQ(::truncate(path.c_str(), size), 0);
      const Error error = error_of([&] { resolve_kernel(paths_, "k"); });
      EXPECT_EQ(error.kind(), Kind::Invalid) << file << size;
      EXPECT_THAT(error.message(), AllOf(HasSubstr(path), HasSubstr("mvm kernel import")));
      EXPECT_THAT(list_kernels(paths_).at(0).problem, HasSubstr(path));
    }
    ASSERT_EQ(::unlink(path.c_str()), 0);
    EXPECT_THAT(error_of([&] { resolve_kernel(paths_, "k"); }).message(), HasSubstr(file));
    install_kernel(paths_, good("k"));
    EXPECT_EQ(resolve_kernel(paths_, "k").name, "k");
  }
}

TEST_F(KernelTest, OtherBytesOfTheSameSizeAreFoundByReadingThem) {
  const KernelBundle kernel = install_kernel(paths_, good("k"));
  EXPECT_NO_THROW(verify_bundle(kernel));
  sys::write_file_atomic(kernel.image, as_bytes("K vmlinux"));
  EXPECT_NO_THROW(resolve_kernel(paths_, "k"));  // a start reads no more than sizes
  EXPECT_THAT(error_of([&] { verify_bundle(kernel); }).message(),
              AllOf(HasSubstr(kernel.image), HasSubstr("mvm kernel import")));
}

TEST_F(KernelTest, ADamagedNoteIsADamagedBundle) {
  const KernelBundle kernel = install_kernel(paths_, good("k"));
  for (const char* note : {"", "[]", R"({"vmlinux":5})", R"({"vmlinux":{"size":"9"}})"}) {
    sys::write_file_atomic(kernel.directory + "/.files.json", as_bytes(note));
    EXPECT_THAT(error_of([&] { resolve_kernel(paths_, "k"); }).message(),
                HasSubstr(".files.json is damaged"))
        << note;
  }
  // Installed before notes were taken.
  sys::remove_file(kernel.directory + "/.files.json");
  EXPECT_NO_THROW(verify_bundle(resolve_kernel(paths_, "k")));
}

TEST_F(KernelTest, AnEmptyKernelIsNoneWhereverItIs) {
  const std::string directory = good("k");
  ASSERT_EQ(::truncate((directory + "/vmlinux").c_str(), 0), 0);
  EXPECT_THAT(error_of([&] { install_kernel(paths_, directory); }).message(),
              HasSubstr("is empty"));
  EXPECT_THAT(error_of([&] { resolve_kernel(paths_, directory + "/vmlinux"); }).message(),
              HasSubstr("is empty"));
  EXPECT_TRUE(list_kernels(paths_).empty());
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

TEST_F(KernelTest, AnInitramfsThatWasCutOffIsMadeAnew) {
  const KernelBundle kernel = install_kernel(paths_, good("k"));
  const AgentBinary agent(as_bytes("agent"));
  const std::string path = ensure_initramfs(paths_, agent, kernel);
  const std::string whole = sys::read_text_file(path, 1 << 20);
  for (const size_t size : {size_t{0}, size_t{5}, whole.size() / 2, whole.size() - 8}) {
    sys::write_file_atomic(path, as_bytes(whole.substr(0, size)));
    EXPECT_EQ(ensure_initramfs(paths_, agent, kernel), path);
    EXPECT_EQ(sys::read_text_file(path, 1 << 20), whole) << size;
  }
}

}
}
