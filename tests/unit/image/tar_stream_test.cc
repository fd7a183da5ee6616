// Archives that are made while they are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "erofs_reader.h"
#include "scratch_store.h"
#include "tar_builder.h"

namespace mvm::image {

using testing::HasSubstr;

class TarStreams : public ScratchStore {
 protected:
  // Pieces of an odd size, as a pipe gives them.
  Imported read(std::string bytes, std::vector<PathAttributes> attributes = {}) {
    bytes_ = std::move(bytes);
    at_ = 0;
    TarStream stream;
    stream.shown = "somewhere";
    stream.kind = "flake";
    stream.key = "flake:1";
    stream.attributes = std::move(attributes);
    stream.next = [this]() -> ByteView {
      if (at_ >= fail_at_) throw Error(Kind::Unavailable, "the pipe broke");
      const ByteView piece = as_bytes(std::string_view(bytes_).substr(at_, 777));
      at_ += piece.size();
      return piece;
    };
    store::Images images(paths_);
    return import_tar(images, stream, store::parse_image_name("made"));
  }
  std::string complaint(const std::string& bytes, std::vector<PathAttributes> attributes = {}) {
    try {
      read(bytes, std::move(attributes));
    } catch (const Error& error) {
      return error.message();
    }
    return "none";
  }
  static TarBuilder sample() {
    TarBuilder tar;
    tar.directory("./").directory("./home/").file("./home/x", std::string(5000, 'x'));
    tar.symlink("./link", "home");
    return tar;
  }

  std::string bytes_;
  size_t at_ = 0;
  size_t fail_at_ = SIZE_MAX;
};

TEST_F(TarStreams, BecomeImagesThatAreFoundByTheirKey) {
  const Imported made = read(sample().bytes() + std::string(9216, '\0'));  // tar's own padding
  EXPECT_EQ(made.image.manifest.source_kind, "flake");
  EXPECT_EQ(ErofsReader(made.image.root).at("home/x").content, std::string(5000, 'x'));
  store::Images images(paths_);
  EXPECT_EQ(images.adopt("flake:1", store::parse_image_name("other"))->digest, made.image.digest);
  EXPECT_FALSE(images.adopt("flake:2", store::parse_image_name("other")));
}

TEST_F(TarStreams, TakeOwnersAndModesThatAnArchiveCannotSay) {
  const Imported made =
      read(sample().bytes(),
           {{"/home", 0700, {1000, 100}}, {"/home/x", 04711, {7, 8}}, {"/", 0711, {0, 0}}});
  const ErofsReader image(made.image.root);
  EXPECT_EQ(image.at("home").mode & 07777, 0700);
  EXPECT_EQ(image.at("home").uid, 1000U);
  EXPECT_EQ(image.at("home").gid, 100U);
  EXPECT_EQ(image.at("home/x").mode & 07777, 04711);
  EXPECT_EQ(image.at("").mode & 07777, 0711);
  EXPECT_THAT(complaint(sample().bytes(), {{"/home/missing", 0700, {0, 0}}}),
              HasSubstr("/home/missing"));
  EXPECT_THAT(complaint(sample().bytes(), {{"/link", 0700, {0, 0}}}), HasSubstr("symbolic link"));
  EXPECT_THAT(complaint(sample().bytes(), {{"/home/..", 0700, {0, 0}}}), HasSubstr("/home/.."));
}

TEST_F(TarStreams, ThatAreCutOffOrGoOnLeaveNothing) {
  EXPECT_THAT(complaint(sample().bytes_without_end()), HasSubstr("cut off"));
  EXPECT_THAT(complaint(sample().bytes() + std::string(2 << 20, '\0')), HasSubstr("end mark"));
  EXPECT_NE(complaint(sample().bytes().substr(0, 3000)), "none");
  EXPECT_NE(complaint(""), "none");
  fail_at_ = 2000;
  EXPECT_EQ(complaint(sample().bytes()), "somewhere: the pipe broke");
  // Not even what broke behind the last entry is let pass.
  fail_at_ = sample().bytes().size();
  EXPECT_EQ(complaint(sample().bytes()), "somewhere: the pipe broke");
  expect_nothing_left();
}

}
