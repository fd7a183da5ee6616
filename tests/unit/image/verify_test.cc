#include "mvm/image/verify.h"

#include <sys/stat.h>

#include "mvm/sys/io.h"

#include "unit/image/oci_builder.h"
#include "unit/image/scratch_store.h"

namespace mvm::image {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = json::Value;

class VerifyTest : public ScratchStore {
 protected:
  VerifyTest() {
    OciBuilder image;
    image.layer(TarBuilder().file("f", "content").file("g", std::string(9000, 'g')));
    image.config["config"] = {{"Entrypoint", {"/bin/app", "a b"}},
                              {"Cmd", {"serve"}},
                              {"Env", {"A=b", "C=d"}},
                              {"User", "app"},
                              {"WorkingDir", "/srv"},
                              {"StopSignal", "SIGINT"},
                              {"Labels", {{"k", "v"}}},
                              {"Healthcheck", {{"Test", {"CMD", "/bin/check"}}}}};
    image_ = import(image.save(scratch_.path() + "/layout")).image;
    manifest_ = sys::read_text_file(store::manifest_file(image_), 1 << 20);
  }

  Json manifest() const { return Json::parse(manifest_); }
  void write_manifest(const Json& json) const {
    sys::write_file_atomic(store::manifest_file(image_), as_bytes(json.dump()));
  }
  void verify() {
    store::Images images(paths_);
    verify_image(images, "test");
  }

  store::Image image_;
  std::string manifest_;
};

TEST_F(VerifyTest, WhatWasImportedIsWhole) {
  uint64_t last = 0;
  store::Images images(paths_);
  EXPECT_EQ(verify_image(images, "test", [&](uint64_t done) { last = done; }).digest,
            image_.digest);
  EXPECT_EQ(last, image_.manifest.size);
}

TEST_F(VerifyTest, SoIsAnImageThatRunsNothing) {
  store::Images images(paths_);
  const auto plain = import_image(
      images, TarBuilder().file("f", "1").save(scratch_.path() + "/t.tar"), {"plain", "latest"});
  EXPECT_NO_THROW(verify_image(images, plain.image.digest));
}

// `run` would take each of these from the manifest.
TEST_F(VerifyTest, AnotherConfigurationIsFound) {
  const std::vector<std::pair<std::string, Json>> changes{{"entrypoint", {"/bin/sh"}},
                                                          {"cmd", {"serve", "evil"}},
                                                          {"env", {"A=b", "C=e"}},
                                                          {"user", "root"},
                                                          {"workdir", "/"},
                                                          {"stop_signal", ""},
                                                          {"labels", {{"k", "w"}}},
                                                          {"labels", Json::object()}};
  for (const auto& [key, value] : changes) {
    Json json = manifest();
    ASSERT_TRUE(json["config"].contains(key));
    json["config"][key] = value;
    write_manifest(json);
    const Error error = error_of([&] { verify(); });
    EXPECT_EQ(error.kind(), Kind::Invalid) << key;
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr(store::manifest_file(image_)), HasSubstr("mvm image rm --force")))
        << key;
  }
  Json json = manifest();
  json["config"]["health"]["command"] = {"/bin/true"};
  write_manifest(json);
  EXPECT_THAT(error_of([&] { verify(); }).message(), HasSubstr("what it was made with"));
  json = manifest();
  json["config"]["kernel"] = "another";
  write_manifest(json);
  EXPECT_THAT(error_of([&] { verify(); }).message(), HasSubstr("what it was made with"));
  json = manifest();
  json["config"].erase("health");
  write_manifest(json);
  EXPECT_THAT(error_of([&] { verify(); }).message(), HasSubstr("what it was made with"));
  write_manifest(manifest());
  EXPECT_NO_THROW(verify());
}

TEST_F(VerifyTest, AnotherSizeCountOrOriginIsFound) {
  const std::string other = "sha256:" + std::string(64, 'a');
  const auto refused = [&](const std::string& pointer, const Json& value) {
    Json json = manifest();
    json[Json::json_pointer(pointer)] = value;
    write_manifest(json);
    EXPECT_EQ(error_of([&] { verify(); }).kind(), Kind::Invalid) << pointer;
  };
  refused("/root/size", 4096);
  refused("/root/digest", other);
  refused("/files", 5000);
  refused("/source/digest", other);
  refused("/source/index", other);
  refused("/source/key", other);
  refused("/version", 1);
}

TEST_F(VerifyTest, OtherBytesAreFound) {
  ASSERT_EQ(::chmod(image_.root.c_str(), 0600), 0);
  const sys::Fd root = sys::open_file(image_.root, O_RDWR);
  for (const uint64_t place :
       {uint64_t{0}, uint64_t{1030}, uint64_t{1080}, uint64_t{5000}, image_.manifest.size - 1}) {
    Bytes was(1);
    ASSERT_TRUE(sys::pread_exact(root.get(), was, place));
    const Bytes changed{was[0] ^ std::byte{1}};
    sys::pwrite_all(root.get(), changed, place);
    EXPECT_THAT(error_of([&] { verify(); }).message(), HasSubstr("is damaged")) << place;
    sys::pwrite_all(root.get(), was, place);
    EXPECT_NO_THROW(verify());
  }
  sys::resize_file(root.get(), 0, "emptying");
  EXPECT_THAT(error_of([&] { verify(); }).message(), HasSubstr("has 0 bytes"));
}

// Their digest is of another kind, and their bytes know nothing of what they run.
TEST_F(VerifyTest, ImagesOfTheFirstVersionStillVerify) {
  store::Images images(paths_);
  store::Staging staging = images.stage();
  sys::write_file_atomic(staging.root(), as_bytes("content"));
  store::Manifest manifest;
  manifest.version = 1;
  manifest.digest = crypto::digest_hex(crypto::sha256(as_bytes("content")));
  manifest.size = 7;
  manifest.config.entrypoint = {"/bin/app"};
  const store::Image old = images.commit(std::move(staging), manifest, {"old", "latest"});
  EXPECT_EQ(verify_image(images, "old").manifest.version, 1);
  sys::write_file_atomic(old.root, as_bytes("Content"));
  EXPECT_THAT(error_of([&] { verify_image(images, "old"); }).message(), HasSubstr("is damaged"));
}

// The bytes of a known image may have been lost since.
TEST_F(VerifyTest, ImportingADamagedImageAgainMendsIt) {
  sys::make_directories(scratch_.path() + "/folder");
  sys::write_file_atomic(scratch_.path() + "/folder/f", as_bytes("1"));
  for (const std::string& source : {scratch_.path() + "/layout", scratch_.path() + "/folder"}) {
    const Imported first = import(source);
    for (const bool bytes : {true, false}) {
      if (bytes) {
        ASSERT_EQ(::chmod(first.image.root.c_str(), 0600), 0);
        ASSERT_EQ(::truncate(first.image.root.c_str(), 0), 0);
      } else {
        sys::write_file_atomic(store::manifest_file(first.image), {});
      }
      EXPECT_THAT(error_of([&] { verify(); }).message(), HasSubstr("is damaged")) << source;
      const Imported again = import(source);
      EXPECT_FALSE(again.existed);
      EXPECT_EQ(again.image.digest, first.image.digest);
      EXPECT_NO_THROW(verify()) << source;
    }
    EXPECT_TRUE(import(source).existed);
  }
}

}
}
