// The index of images is lost, damaged or half-written; the images and their names are not.
#include <fcntl.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/crypto/hash.h"
#include "mvm/store/images.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::store {
namespace {

using ::testing::ElementsAre;

class ImageIndexTest : public ::testing::Test {
 protected:
  ImageIndexTest() {
    paths_.ensure_data();
    Images images(paths_);
    one_ = add(images, "one", "the first", "key-1", "2026-01-01T00:00:00Z");
    two_ = add(images, "two", "the second", "key-2", "2026-01-02T00:00:00Z");
    images.tag("one", parse_image_name("ghcr.io/a/b:c"));
  }

  static std::string add(Images& images, const std::string& name, const std::string& content,
                         const std::string& key, const std::string& created) {
    Staging staging = images.stage();
    sys::write_file_atomic(staging.root(), as_bytes(content));
    Manifest manifest;
    manifest.name = parse_image_name(name).text();
    manifest.created = created;
    manifest.source_kind = "tar";
    manifest.source_key = key;
    manifest.source_digest = "sha256:" + crypto::digest_hex(crypto::sha256(as_bytes(key)));
    manifest.digest = crypto::digest_hex(crypto::sha256(as_bytes(content)));
    manifest.size = content.size();
    return images.commit(std::move(staging), manifest, parse_image_name(name)).digest;
  }

  void lose_index() {
    for (const char* suffix : {"", "-wal", "-shm", ".lock"})
      ::unlink((paths_.image_index() + suffix).c_str());
  }

  void expect_all_is_there() {
    Images images(paths_);
    EXPECT_THAT(images.get("one").names, ElementsAre("ghcr.io/a/b:c", "one:latest"));
    EXPECT_THAT(images.get("two").names, ElementsAre("two:latest"));
    EXPECT_EQ(images.adopt("key-2", parse_image_name("two"))->digest, two_);
    EXPECT_EQ(
        images.get("a@sha256:" + crypto::digest_hex(crypto::sha256(as_bytes("key-1")))).digest,
        one_);
  }

  const sys::TempDir scratch_;
  const Paths paths_{scratch_.path() + "/run", scratch_.path() + "/data"};
  std::string one_;
  std::string two_;
};

TEST_F(ImageIndexTest, IsMadeAnewFromTheFilesWhenItIsLost) {
  EXPECT_FALSE(Images(paths_).check_index());
  lose_index();
  EXPECT_TRUE(Images(paths_).check_index());
  EXPECT_FALSE(Images(paths_).check_index());
  expect_all_is_there();
}

TEST_F(ImageIndexTest, IsMadeAnewWhenItIsNoDatabase) {
  lose_index();
  sys::write_file_atomic(paths_.image_index(), Bytes(8192, std::byte{'x'}));
  expect_all_is_there();
  EXPECT_TRUE(sys::exists(paths_.image_index() + ".damaged"));
}

TEST_F(ImageIndexTest, IsMadeAnewWhenOneOfItsPagesIsDamaged) {
  const sys::Fd fd = sys::open_file(paths_.image_index(), O_RDWR);
  for (uint64_t page = 1; page < sys::file_size(fd.get()) / 4096; ++page)
    sys::pwrite_all(fd.get(), Bytes(4096, std::byte{0xff}), page * 4096);
  // As the daemon does when it starts.
  EXPECT_TRUE(Images(paths_).check_index());
  expect_all_is_there();
}

TEST_F(ImageIndexTest, TakesTheNamesOfManifestsWhereTheFileOfNamesIsLostToo) {
  {
    Images images(paths_);
    // "two" has moved on: the older image must not get it back.
    two_ = add(images, "two", "the third", "key-2", "2026-01-03T00:00:00Z");
  }
  lose_index();
  ASSERT_EQ(::unlink(paths_.image_names().c_str()), 0);
  Images images(paths_);
  EXPECT_THAT(images.get("one").names, ElementsAre("one:latest"));
  EXPECT_EQ(images.get("two").digest, two_);
  EXPECT_EQ(images.list().size(), 3U);
}

TEST_F(ImageIndexTest, LeavesOutNamesWithoutAnImageAndLinesThatMakeNoSense) {
  lose_index();
  sys::write_file_atomic(paths_.image_names(),
                         as_bytes("one:latest " + one_ + "\ngone:latest " + std::string(64, 'a') +
                                  "\nno digest\n../evil:latest " + two_ + "\n\n"));
  Images images(paths_);
  EXPECT_THAT(images.get("one").names, ElementsAre("one:latest"));
  EXPECT_FALSE(images.find("gone"));
  EXPECT_TRUE(images.get("sha256:" + two_).names.empty());
}

TEST_F(ImageIndexTest, DoesNotGetANameBackThatWasTaken) {
  Images(paths_).remove("ghcr.io/a/b:c", {});
  Images(paths_).remove("two", {});
  lose_index();
  Images images(paths_);
  EXPECT_THAT(images.get("one").names, ElementsAre("one:latest"));
  EXPECT_FALSE(images.find("two"));
}

TEST_F(ImageIndexTest, AdoptingUnderANameThatItHasWritesNothing) {
  Images images(paths_);
  const auto before = sys::read_own_text_file(paths_.image_names(), 4096);
  ASSERT_EQ(::unlink(paths_.image_names().c_str()), 0);
  EXPECT_EQ(images.adopt("key-1", parse_image_name("one"))->digest, one_);
  EXPECT_FALSE(sys::exists(paths_.image_names()));
  EXPECT_TRUE(images.adopt("key-1", parse_image_name("uno")));
  EXPECT_EQ(sys::read_own_text_file(paths_.image_names(), 4096),
            before + "uno:latest " + one_ + "\n");
}

}
}
