// What a disk or a crash leaves of an image is one line that says what to do; the other images are
// not held up by it, and importing the image again mends it.

#include <fcntl.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/crypto/hash.h"
#include "mvm/store/images.h"
#include "mvm/sys/file.h"

namespace mvm::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kDamagedManifests[] = {"",
                                             "{",
                                             "[]",
                                             "5",
                                             "\x7f"
                                             "ELF",
                                             "{}",
                                             R"({"version":2})",
                                             R"({"version":"2"})",
                                             R"({"version":2,"name":5})",
                                             R"({"version":0})"};

class DamagedImage : public ::testing::Test {
 protected:
  DamagedImage() : paths_(scratch_.path() + "/run", scratch_.path() + "/data") {
    paths_.ensure_data();
    image_ = add("bad", "content");
    add("good", "other");
  }

  Image add(const std::string& name, const std::string& content) {
    Images images(paths_);
    Staging staging = images.stage();
    sys::write_file_atomic(staging.root(), as_bytes(content));
    Manifest manifest;
    manifest.name = name;
    manifest.digest = crypto::digest_hex(crypto::sha256(as_bytes(content)));
    manifest.size = content.size();
    manifest.source_key = "key of " + content;
    return images.commit(std::move(staging), manifest, parse_image_name(name));
  }
  void damage_manifest(std::string_view text) const {
    sys::write_file_atomic(manifest_file(image_), as_bytes(text));
  }
  void truncate_root(off_t size = 0) const {
    ASSERT_EQ(::chmod(image_.root.c_str(), 0600), 0);
    ASSERT_EQ(::truncate(image_.root.c_str(), size), 0);
  }

  sys::TempDir scratch_;
  Paths paths_;
  Image image_;
};

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Kind::Internal, ""};
}

TEST_F(DamagedImage, IsOneLineThatSaysWhatToDo) {
  for (const char* text : kDamagedManifests) {
    damage_manifest(text);
    const Error error = error_of([&] { Images(paths_).get("bad"); });
    EXPECT_EQ(error.kind(), Kind::Invalid) << text;
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("is damaged"), HasSubstr(manifest_file(image_)),
                      HasSubstr("mvm image rm --force " + image_.digest.substr(0, 12)),
                      Not(HasSubstr("exception")), Not(HasSubstr("\n"))))
        << text;
  }
}

TEST_F(DamagedImage, IsListedWithItsProblemBesideTheOthers) {
  for (const char* text : kDamagedManifests) {
    damage_manifest(text);
    const std::vector<Image> images = Images(paths_).list();
    ASSERT_EQ(images.size(), 2U) << text;
    EXPECT_EQ(images[0].digest, image_.digest);
    EXPECT_THAT(images[0].names, ElementsAre("bad:latest"));
    EXPECT_THAT(images[0].problem, HasSubstr("is damaged")) << text;
    EXPECT_EQ(images[1].problem, "");
  }
}

TEST_F(DamagedImage, OfANewerMvmIsListedToo) {
  damage_manifest(R"({"version":99})");
  EXPECT_THAT(Images(paths_).list().front().problem, HasSubstr("newer mvm"));
}

TEST_F(DamagedImage, WithTheManifestOfAnotherIsFound) {
  damage_manifest(manifest_to_json(Images(paths_).get("good").manifest));
  EXPECT_THAT(error_of([&] { Images(paths_).get("bad"); }).message(), HasSubstr("another image"));
}

TEST_F(DamagedImage, WithoutAManifestIsFound) {
  sys::remove_file(manifest_file(image_));
  EXPECT_THAT(error_of([&] { Images(paths_).get("bad"); }).message(), HasSubstr("there is no"));
  EXPECT_EQ(Images(paths_).list().size(), 2U);
}

TEST_F(DamagedImage, IsMendedByImportingItAgain) {
  for (const char* text : kDamagedManifests) {
    damage_manifest(text);
    EXPECT_FALSE(Images(paths_).whole(image_.digest)) << text;
    EXPECT_EQ(add("bad", "content").manifest.source_key, "key of content") << text;
    EXPECT_TRUE(Images(paths_).whole(image_.digest)) << text;
  }
}

TEST_F(DamagedImage, WithoutItsBytesIsNotTakenForKnown) {
  for (const off_t size : {0, 3, 100}) {
    truncate_root(size);
    EXPECT_EQ(Images(paths_).adopt("key of content", parse_image_name("x")), std::nullopt);
    const Error error = error_of([&] { open_root(image_); });
    EXPECT_THAT(error.message(), AllOf(HasSubstr(image_.root), HasSubstr("bytes, not 7"),
                                       HasSubstr("mvm image rm --force")));
    add("bad", "content");
    EXPECT_EQ(sys::read_text_file(image_.root, 100), "content");
    EXPECT_TRUE(Images(paths_).adopt("key of content", parse_image_name("x")).has_value());
  }
  sys::remove_file(image_.root);
  EXPECT_THAT(error_of([&] { open_root(image_); }).message(), HasSubstr("there is no"));
  add("bad", "content");
  EXPECT_EQ(sys::read_text_file(image_.root, 100), "content");
  EXPECT_EQ(Images(paths_).remove_unfinished(), 0U);
}

TEST_F(DamagedImage, CanBeRemovedAndPruned) {
  damage_manifest("");
  EXPECT_EQ(Images(paths_).prune({}, false).digests.size(), 0U);  // it has a name
  EXPECT_TRUE(Images(paths_).remove("bad", {}));
  const Image again = add("bad", "content");
  Images(paths_).set_name(parse_image_name("bad"), Images(paths_).get("good").digest);
  sys::remove_file(again.root);
  damage_manifest("{");
  EXPECT_THAT(Images(paths_).prune({}, false).digests, ElementsAre(image_.digest));
  EXPECT_EQ(Images(paths_).list().size(), 1U);
}

TEST_F(DamagedImage, GetsNoOtherName) {
  damage_manifest("");
  Images images(paths_);
  EXPECT_EQ(error_of([&] { images.tag("bad", parse_image_name("x")); }).kind(), Kind::Invalid);
  EXPECT_THAT(images.list().front().names, ElementsAre("bad:latest"));
}

}
}
