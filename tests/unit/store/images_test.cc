#include "mvm/store/images.h"

#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/crypto/hash.h"
#include "mvm/sys/file.h"

namespace mvm::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ImagesTest : public ::testing::Test {
 protected:
  ImagesTest() : paths_(scratch_.path() + "/run", scratch_.path() + "/data") {
    paths_.ensure_data();
  }

  Image add(Images& images, const std::string& name, const std::string& content) {
    Staging staging = images.stage();
    sys::write_file_atomic(staging.root(), as_bytes(content));
    Manifest manifest;
    manifest.name = name;
    manifest.created = "2026-01-02T03:04:05Z";
    manifest.source_kind = "tar";
    manifest.source_path = "/somewhere.tar";
    manifest.digest = crypto::digest_hex(crypto::sha256(as_bytes(content)));
    manifest.size = content.size();
    manifest.config.env = {"A=b"};
    return images.commit(std::move(staging), manifest, parse_image_name(name));
  }

  static Images::InUse used_by(std::vector<std::string> users) {
    return [users = std::move(users)](const std::string&) { return users; };
  }

  sys::TempDir scratch_;
  Paths paths_;
};

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

TEST(ImageName, HasATagOrLatest) {
  EXPECT_EQ(parse_image_name("base").text(), "base:latest");
  EXPECT_EQ(parse_image_name("base:v1").text(), "base:v1");
  for (const char* bad : {"", ":", "a:", ":b", "a//b", "a:b:c", "../x", " a"})
    EXPECT_EQ(error_of([&] { parse_image_name(bad); }).kind(), Kind::Invalid) << bad;
  EXPECT_EQ(error_of([&] { parse_image_name(std::string(300, 'a')); }).kind(), Kind::Invalid);
}

TEST(Manifest, SurvivesTheRoundTrip) {
  Manifest manifest;
  manifest.name = "a:b";
  manifest.created = "2026-01-02T03:04:05Z";
  manifest.source_kind = "directory";
  manifest.source_path = "/x \"y\"";
  manifest.digest = std::string(64, 'a');
  manifest.size = uint64_t{1} << 40;
  manifest.files = 7;
  manifest.content_bytes = 9;
  manifest.config = {{"/bin/sh"}, {"-c", "x"}, {"A=b"}, "user", "/work"};
  manifest.config.kernel = "own-0123456789abcdef";
  const Manifest again = manifest_from_json(manifest_to_json(manifest), "test");
  EXPECT_EQ(again.source_path, manifest.source_path);
  EXPECT_EQ(again.digest, manifest.digest);
  EXPECT_EQ(again.size, manifest.size);
  EXPECT_EQ(again.config, manifest.config);
}

TEST(Manifest, WhatIsWrongOrNewerIsRefused) {
  for (const char* bad :
       {"", "{}", "[]", "{\"version\":\"1\"}", "{\"version\":1,\"name\":3}", "{\"version\":0}"})
    EXPECT_EQ(error_of([&] { manifest_from_json(bad, "m.json"); }).kind(), Kind::Invalid) << bad;
  const Error newer = error_of([] { manifest_from_json("{\"version\":99}", "m.json"); });
  EXPECT_EQ(newer.kind(), Kind::Unsupported);
  EXPECT_THAT(newer.message(), HasSubstr("m.json"));
}

// It is looked for among the installed ones; a path would be one of this host's files.
TEST(Manifest, NamesAKernelAndNoPathOfOne) {
  for (const char* kernel : {"/boot/vmlinuz", "../x", "a/b", "a b"}) {
    Manifest manifest;
    manifest.config.kernel = kernel;
    const std::string text = manifest_to_json(manifest);
    EXPECT_EQ(error_of([&] { manifest_from_json(text, "m.json"); }).kind(), Kind::Invalid)
        << kernel;
  }
}

TEST(Manifest, ASourcePathThatIsNoTextIsStillWritten) {
  Manifest manifest;
  manifest.source_path = "/\xff";
  EXPECT_THAT(manifest_to_json(manifest), HasSubstr("/\xef\xbf\xbd"));
}

TEST_F(ImagesTest, IsFoundByNameTagDigestAndPrefix) {
  Images images(paths_);
  const Image image = add(images, "base", "content");
  for (const std::string& ref : {std::string("base"), std::string("base:latest"), image.digest,
                                 "sha256:" + image.digest, image.digest.substr(0, 12)})
    EXPECT_EQ(images.get(ref).digest, image.digest) << ref;
  EXPECT_EQ(images.find(image.digest.substr(0, 11)), std::nullopt);
  EXPECT_EQ(images.find("base:v2"), std::nullopt);
  EXPECT_EQ(sys::read_text_file(image.root, 100), "content");
  EXPECT_THAT(image.manifest.config.env, ElementsAre("A=b"));
}

TEST_F(ImagesTest, AnUnknownNameSuggestsANearOne) {
  Images images(paths_);
  EXPECT_THAT(error_of([&] { images.get("base"); }).message(), HasSubstr("mvm image import"));
  add(images, "base", "content");
  const Error error = error_of([&] { images.get("bsae"); });
  EXPECT_EQ(error.kind(), Kind::NotFound);
  EXPECT_THAT(error.message(), HasSubstr("did you mean base:latest?"));
}

TEST_F(ImagesTest, EqualBytesAreKeptOnce) {
  Images images(paths_);
  const Image first = add(images, "a", "same");
  struct stat before{};
  ASSERT_EQ(::stat(first.root.c_str(), &before), 0);
  const Image second = add(images, "b:v1", "same");
  struct stat after{};
  ASSERT_EQ(::stat(second.root.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_THAT(second.names, ElementsAre("a:latest", "b:v1"));
  EXPECT_EQ(images.list().size(), 1U);
  EXPECT_THAT(sys::list_directory(paths_.images_dir()), ElementsAre(first.digest));
}

TEST_F(ImagesTest, ANameMovesToTheNewBytes) {
  Images images(paths_);
  const Image old = add(images, "a", "old");
  const Image fresh = add(images, "a", "new");
  EXPECT_EQ(images.get("a").digest, fresh.digest);
  EXPECT_THAT(images.get(old.digest).names, IsEmpty());
}

TEST_F(ImagesTest, RemovingTheLastNameRemovesTheBytes) {
  Images images(paths_);
  const Image image = add(images, "a", "same");
  add(images, "b", "same");
  EXPECT_FALSE(images.remove("a", used_by({"sb-1"})));  // only a name: nobody is hurt
  EXPECT_TRUE(sys::exists(image.root));
  EXPECT_TRUE(images.remove("b", used_by({})));
  EXPECT_FALSE(sys::exists(image.root));
  EXPECT_THAT(sys::list_directory(paths_.images_dir()), IsEmpty());
  EXPECT_EQ(error_of([&] { images.remove("b", used_by({})); }).kind(), Kind::NotFound);
}

TEST_F(ImagesTest, WhatIsInUseStaysUnlessForced) {
  Images images(paths_);
  const Image image = add(images, "a", "x");
  const Error error = error_of([&] { images.remove("a", used_by({"web", "db"})); });
  EXPECT_EQ(error.kind(), Kind::Conflict);
  EXPECT_THAT(error.message(), HasSubstr("web, db"));
  EXPECT_EQ(images.get("a").digest, image.digest);
  EXPECT_TRUE(images.remove(image.digest, used_by({"web"}), true));
  EXPECT_THAT(images.list(), IsEmpty());
}

TEST_F(ImagesTest, ADroppedStagingLeavesNothing) {
  Images images(paths_);
  {
    const Staging staging = images.stage();
    sys::write_file_atomic(staging.root(), as_bytes("half"));
  }
  EXPECT_THAT(sys::list_directory(paths_.images_dir()), IsEmpty());
}

TEST_F(ImagesTest, CleaningUpTakesTheDeadAndLeavesTheLiving) {
  Images images(paths_);
  add(images, "a", "x");
  const Staging running = images.stage();
  const std::string dead = paths_.images_dir() + "/.tmp-abcdefghijkl";
  sys::make_directories(dead);
  sys::write_file_atomic(dead + "/root.erofs", as_bytes("half"));
  EXPECT_EQ(images.remove_unfinished(), 1U);
  EXPECT_FALSE(sys::exists(dead));
  EXPECT_TRUE(sys::exists(running.path()));
  EXPECT_EQ(images.list().size(), 1U);
}

TEST_F(ImagesTest, ManyImportAtOnce) {
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&, n] {
      Images images(paths_);
      for (int i = 0; i < 5; ++i) {
        add(images, "same", "same");
        add(images, "own-" + std::to_string(n), "content " + std::to_string(n));
      }
    });
  for (std::thread& thread : threads) thread.join();
  Images images(paths_);
  EXPECT_EQ(images.list().size(), 5U);
  EXPECT_EQ(images.remove_unfinished(), 0U);
}

}
}
