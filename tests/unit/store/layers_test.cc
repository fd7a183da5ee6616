// Names of registries, tags, pruning, and the layers that pulls leave for later ones.

#include <fcntl.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/crypto/hash.h"
#include "mvm/crypto/tree_hash.h"
#include "mvm/store/blobs.h"
#include "mvm/store/images.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() : paths_(scratch_.path() + "/run", scratch_.path() + "/data") {
    paths_.ensure_data();
  }
  Image add(const std::string& name, const std::string& content, const std::string& key = "") {
    Images images(paths_);
    Staging staging = images.stage();
    sys::write_file_atomic(staging.root(), as_bytes(content));
    Manifest manifest;
    manifest.name = name;
    const sys::Fd file = sys::open_file(staging.root(), O_RDONLY);
    manifest.digest = crypto::digest_hex(crypto::tree_of_file(file.get()));
    manifest.size = content.size();
    manifest.source_digest = digest('a').text();
    manifest.source_index = digest('b').text();
    manifest.source_key = key;
    return images.commit(std::move(staging), manifest, parse_image_name(name));
  }
  static oci::Digest digest(char c) { return oci::Digest::parse("sha256:" + std::string(64, c)); }
  static Kind kind_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.kind();
    }
    ADD_FAILURE() << "nothing was thrown";
    return Kind::Internal;
  }
  static Images::InUse nobody() {
    return [](const std::string&) { return std::vector<std::string>{}; };
  }

  sys::TempDir scratch_;
  Paths paths_;
};

TEST_F(StoreTest, NamesOfRegistriesAreFoundByTheirShortFormToo) {
  const std::string pulled = add("docker.io/library/python:3.12", "hub").digest;
  Images images(paths_);
  EXPECT_EQ(images.get("python:3.12").digest, pulled);
  EXPECT_EQ(images.get("docker.io/python:3.12").digest, pulled);
  EXPECT_FALSE(images.find("python").has_value());
  EXPECT_FALSE(images.find("ghcr.io/library/python:3.12").has_value());
  const std::string local = add("python:3.12", "local").digest;
  EXPECT_EQ(images.get("python:3.12").digest, local);
  images.remove("python:3.12", nobody());
  EXPECT_EQ(images.get("python:3.12").digest, pulled);
}

TEST_F(StoreTest, IsFoundByTheDigestOfItsManifestOrIndex) {
  const std::string made = add("localhost:5000/app:v1", "x").digest;
  Images images(paths_);
  EXPECT_EQ(images.get("localhost:5000/app@" + digest('a').text()).digest, made);
  EXPECT_EQ(images.get("other@" + digest('b').text()).digest, made);
  EXPECT_FALSE(images.find("app@" + digest('c').text()).has_value());
  EXPECT_EQ(kind_of([&] { images.find("app@sha256:12"); }), Kind::Invalid);
}

TEST_F(StoreTest, TagGivesAnotherNameAndTakesItFromWhoeverHadIt) {
  const Image one = add("one", "1");
  add("two", "2");
  Images images(paths_);
  EXPECT_THAT(images.tag("one", parse_image_name("ghcr.io/a/b:c")).names,
              ElementsAre("ghcr.io/a/b:c", "one:latest"));
  images.tag(one.digest.substr(0, 12), parse_image_name("two"));
  EXPECT_EQ(images.get("two").digest, one.digest);
  EXPECT_EQ(kind_of([&] { images.tag("absent", parse_image_name("x")); }), Kind::NotFound);
  EXPECT_EQ(kind_of([] { parse_image_name("a/b@" + digest('a').text()); }), Kind::Invalid);
}

TEST_F(StoreTest, PruneTakesWhatHasNoNameAndNoSandbox) {
  const Image named = add("named", "1");
  const Image lost = add("moved", "2");
  const Image used = add("moved", "3");
  add("moved", "4");
  Images images(paths_);
  const auto in_use = [&](const std::string& of) {
    return of == used.digest ? std::vector<std::string>{"web"} : std::vector<std::string>{};
  };
  EXPECT_THAT(images.prune(in_use, false, true).digests, ElementsAre(lost.digest));
  EXPECT_EQ(images.list().size(), 4U);
  EXPECT_THAT(images.prune(in_use, false).digests, ElementsAre(lost.digest));
  EXPECT_EQ(images.list().size(), 3U);
  EXPECT_EQ(images.prune(in_use, true).digests.size(), 2U);
  ASSERT_EQ(images.list().size(), 1U);
  EXPECT_EQ(images.list()[0].digest, used.digest);
  EXPECT_THAT(images.prune(nobody(), true).digests, ElementsAre(used.digest));
  EXPECT_THAT(sys::list_directory(paths_.images_dir()), IsEmpty());
}

TEST_F(StoreTest, WhatASourceBecameIsAdoptedUnderAnotherName) {
  const Image made = add("first", "x", "key");
  Images images(paths_);
  EXPECT_FALSE(images.adopt("other", parse_image_name("second")).has_value());
  EXPECT_THAT(images.adopt("key", parse_image_name("second"))->names,
              ElementsAre("first:latest", "second:latest"));
}

TEST_F(StoreTest, OneAtATimeMakesASource) {
  Images images(paths_);
  Images others(paths_);
  {
    const auto lock = images.lock_source("key");
    ASSERT_TRUE(lock.has_value());
    EXPECT_FALSE(others.lock_source("key").has_value());
    EXPECT_TRUE(others.lock_source("another").has_value());
    EXPECT_EQ(others.remove_unfinished(), 0U);
    EXPECT_FALSE(others.lock_source("key").has_value());
  }
  EXPECT_TRUE(others.lock_source("key").has_value());
  EXPECT_THAT(sys::list_directory(paths_.images_dir()), IsEmpty());
}

TEST_F(StoreTest, BlobsAreWholeOrNotThere) {
  const Blobs blobs(paths_);
  const oci::Digest one = oci::Digest::of(as_bytes("one"));
  EXPECT_FALSE(blobs.find(one).has_value());
  {
    const auto part = blobs.begin(one);
    ASSERT_TRUE(part.has_value());
    EXPECT_FALSE(blobs.begin(one).has_value());  // somebody is at it
    sys::write_all(part->fd(), as_bytes("on"));
    EXPECT_FALSE(blobs.find(one).has_value());
  }
  EXPECT_THAT(sys::list_directory(paths_.blobs_dir()), IsEmpty());
  auto part = blobs.begin(one);
  sys::write_all(part->fd(), as_bytes("one"));
  blobs.commit(std::move(*part), one);
  EXPECT_EQ(sys::file_size(blobs.find(one)->get()), 3U);
  EXPECT_THAT(sys::list_directory(paths_.blobs_dir()), ElementsAre(one.hex()));
}

TEST_F(StoreTest, BlobsArePrunedButNotDuringAPull) {
  const Blobs blobs(paths_);
  for (const char* text : {"one", "two"}) {
    const oci::Digest digest_of = oci::Digest::of(as_bytes(text));
    auto part = blobs.begin(digest_of);
    sys::write_all(part->fd(), as_bytes(text));
    blobs.commit(std::move(*part), digest_of);
  }
  sys::write_file_atomic(paths_.blobs_dir() + "/.part-left", as_bytes("x"));
  const std::string one = oci::Digest::of(as_bytes("one")).text();
  {
    const sys::Fd pull = blobs.hold();
    EXPECT_EQ(blobs.prune({}).blobs, 0U);
  }
  EXPECT_EQ(blobs.prune({one}, true).blobs, 2U);
  EXPECT_EQ(blobs.prune({one}).blobs, 2U);
  EXPECT_THAT(sys::list_directory(paths_.blobs_dir()), ElementsAre(one.substr(7)));
}

TEST(ManifestJson, WithAHealthCheckBeyondItsBoundsIsRefused) {
  Manifest manifest;
  manifest.digest = std::string(64, 'a');
  manifest.config.health = proto::HealthCheck{{"true"}};
  std::string text = manifest_to_json(manifest);
  const size_t at = text.find("\"retries\": 3");
  ASSERT_NE(at, text.npos);
  EXPECT_THROW(manifest_from_json(text.replace(at, 12, "\"retries\": 0"), "x"), Error);
}

TEST(ManifestJson, OfAnOlderVersionLacksWhatCameLater) {
  Manifest manifest;
  manifest.digest = std::string(64, 'a');
  manifest.source_key = "key";
  manifest.layers = {"sha256:1"};
  manifest.config.labels = {{"a", "b"}};
  manifest.config.stop_signal = "SIGINT";
  manifest.config.health = proto::HealthCheck{{"curl", "x"}, 1'000, 2'000, 3'000, 4'000, 5};
  const Manifest again = manifest_from_json(manifest_to_json(manifest), "x");
  EXPECT_EQ(again.layers, manifest.layers);
  EXPECT_EQ(again.config, manifest.config);
  const Manifest old = manifest_from_json(
      R"({"version":1,"name":"n","created":"c","source":{"kind":"tar","path":"p"},"root":)"
      R"({"file":"root.erofs","digest":"sha256:d","size":1},"files":1,"content_bytes":1,"config":)"
      R"({"entrypoint":[],"cmd":["x"],"env":[],"user":"","workdir":""}})",
      "x");
  EXPECT_EQ(old.source_key, "");
  EXPECT_EQ(old.config.health, std::nullopt);
  EXPECT_THAT(old.config.cmd, ElementsAre("x"));
}

}
}
