#include "mvm/image/overlay.h"

#include <sys/stat.h>

#include "mvm/sys/io.h"

#include "scratch_store.h"

namespace mvm::image {
namespace {

class OverlayTest : public ScratchStore {
 protected:
  void SetUp() override {
    if (::access("/usr/sbin/mkfs.ext4", X_OK) != 0 && ::access("/sbin/mkfs.ext4", X_OK) != 0)
      GTEST_SKIP() << "no mkfs.ext4 here";
  }
  std::string disk(const char* name) const { return scratch_.path() + "/" + name; }
};

TEST_F(OverlayTest, IsAnExt4ThatE2fsckAccepts) {
  create_overlay(paths_, uint64_t{256} << 20, disk("a"));
  const int code = run_tool({"/usr/sbin/e2fsck", "-fn", disk("a")});
  EXPECT_TRUE(code == 0 || code == -1) << code;
  const sys::Fd fd = sys::open_file(disk("a"), O_RDONLY);
  EXPECT_EQ(sys::file_size(fd.get()), uint64_t{256} << 20);
  Bytes magic(2);
  ASSERT_TRUE(sys::pread_exact(fd.get(), magic, 1024 + 0x38));
  EXPECT_EQ(magic, (Bytes{std::byte{0x53}, std::byte{0xef}}));
}

TEST_F(OverlayTest, IsSparseAndPrivate) {
  create_overlay(paths_, uint64_t{4} << 30, disk("a"));
  struct stat status{};
  ASSERT_EQ(::stat(disk("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, off_t{4} << 30);
  EXPECT_LT(status.st_blocks * 512, 2 << 20);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(OverlayTest, DisksOfOneSizeAreEqualAndTheTemplateIsMadeOnce) {
  prepare_overlay(paths_, uint64_t{64} << 20);
  create_overlay(paths_, uint64_t{64} << 20, disk("a"));
  create_overlay(paths_, (uint64_t{64} << 20) - 5, disk("b"));  // rounded up to MiB
  EXPECT_EQ(sys::list_directory(paths_.overlays_dir()).size(), 1U);
  EXPECT_EQ(sys::read_file(disk("a"), 65 << 20), sys::read_file(disk("b"), 65 << 20));
}

TEST_F(OverlayTest, ATemplateThatWasCutOffIsMadeAnew) {
  create_overlay(paths_, uint64_t{64} << 20, disk("a"));
  const std::string made = sys::list_directory(paths_.overlays_dir()).at(0);
  sys::write_file_atomic(paths_.overlays_dir() + "/" + made, {});
  create_overlay(paths_, uint64_t{64} << 20, disk("b"));
  EXPECT_EQ(sys::read_file(disk("a"), 65 << 20), sys::read_file(disk("b"), 65 << 20));
}

TEST_F(OverlayTest, AnExistingFileIsNotTouched) {
  sys::write_file_atomic(disk("a"), as_bytes("precious"));
  EXPECT_EQ(error_of([&] { create_overlay(paths_, kMinOverlay, disk("a")); }).kind(),
            Kind::Conflict);
  EXPECT_EQ(sys::read_text_file(disk("a"), 100), "precious");
}

TEST_F(OverlayTest, SizesOutOfBoundsAreRefused) {
  for (const uint64_t size : {uint64_t{0}, kMinOverlay - 1, kMaxOverlay + 1, ~uint64_t{0}})
    EXPECT_EQ(error_of([&] { create_overlay(paths_, size, disk("a")); }).kind(), Kind::Invalid);
  create_overlay(paths_, kMinOverlay, disk("a"));
}

}
}
