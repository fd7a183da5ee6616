// What images and layers may take, and what happens at that bound.
#include "mvm/store/quota.h"

#include <fcntl.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/crypto/tree_hash.h"
#include "mvm/store/blobs.h"
#include "mvm/store/images.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::store {
namespace {

using ::testing::HasSubstr;

template <typename Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Kind::Internal, ""};
}

class QuotaTest : public ::testing::Test {
 protected:
  QuotaTest() { paths_.ensure_data(); }
  void set(const std::string& text) {
    sys::write_file_atomic(paths_.image_settings(), as_bytes(text));
  }
  // An image of `size` bytes that are not zeros.
  Image add(const std::string& name, size_t size) {
    Images images(paths_);
    Staging staging = images.stage();
    const std::string content(size, name.front());
    sys::write_file_atomic(staging.root(), as_bytes(content));
    Manifest manifest;
    manifest.name = name + ":latest";
    const sys::Fd file = sys::open_file(staging.root(), O_RDONLY);
    manifest.digest = crypto::digest_hex(crypto::tree_of_file(file.get()));
    manifest.size = size;
    return images.commit(std::move(staging), manifest, parse_image_name(name));
  }

  const sys::TempDir scratch_;
  const Paths paths_{scratch_.path() + "/run", scratch_.path() + "/data"};
};

TEST_F(QuotaTest, IsReadStrictlyAndThereIsNoneWithoutItsFile) {
  EXPECT_FALSE(Quota(paths_).limited());
  EXPECT_NO_THROW(Quota(paths_).require(uint64_t{1} << 50));
  EXPECT_EQ(parse_store_settings(R"({"quota": "2G"})", "x").quota, uint64_t{2} << 30);
  for (const char* bad : {"", "[]", R"({"quota": 5})", R"({"quota": "much"})", R"({"quota": "0"})",
                          R"({"qouta": "2G"})"})
    EXPECT_THAT(error_of([&] { parse_store_settings(bad, "images.json"); }).message(),
                HasSubstr("images.json: "))
        << bad;
  set("{");
  EXPECT_EQ(error_of([&] { Quota(paths_).limited(); }).kind(), Kind::Invalid);
}

TEST_F(QuotaTest, HoldsForImagesAndWhatIsThereStays) {
  set(R"({"quota": "1M"})");
  const Image first = add("a", 600'000);
  const Error error = error_of([&] { add("b", 600'000); });
  EXPECT_EQ(error.kind(), Kind::Exhausted);
  EXPECT_THAT(error.message(), HasSubstr("quota of 1"));
  EXPECT_THAT(error.message(), HasSubstr("mvm image prune"));
  EXPECT_THAT(error.message(), HasSubstr(paths_.image_settings()));
  EXPECT_EQ(Images(paths_).list().size(), 1U);
  EXPECT_TRUE(Images(paths_).whole(first.digest));
  // The same bytes once more take nothing.
  EXPECT_EQ(add("a", 600'000).digest, first.digest);
  Images(paths_).remove("a", {});
  EXPECT_NO_THROW(add("b", 600'000));
}

TEST_F(QuotaTest, CountsLayersAndTellsWhatIsLeft) {
  set(R"({"quota": "1M"})");
  const Blobs blobs(paths_);
  EXPECT_NO_THROW(blobs.require_room(500'000));
  const std::string content(700'000, 'l');
  const oci::Digest digest = oci::Digest::of(as_bytes(content));
  {
    auto part = blobs.begin(digest);
    sys::write_all(part->fd(), as_bytes(content));
    blobs.commit(std::move(*part), digest);
  }
  EXPECT_GE(Quota(paths_).used(), 700'000U);
  EXPECT_LT(*Images(paths_).room(), 400'000U);
  EXPECT_EQ(error_of([&] { blobs.require_room(500'000); }).kind(), Kind::Exhausted);
  blobs.prune({});
  EXPECT_NO_THROW(blobs.require_room(500'000));
}

}
}
