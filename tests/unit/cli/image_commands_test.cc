// What commands about images show and write.
#include <variant>

#include <fcntl.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/cli/actions.h"
#include "mvm/image/import.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "../../../src/cli/image_progress.h"

namespace mvm::cli {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string content(const sys::Fd& file) {
  std::string text(sys::file_size(file.get()), '\0');
  EXPECT_TRUE(sys::pread_exact(file.get(), std::as_writable_bytes(std::span(text)), 0));
  return text;
}

TEST(Bar, IsAsFullAsWhatIsDone) {
  EXPECT_EQ(bar(0, 100, 10), "[>         ]");
  EXPECT_EQ(bar(45, 100, 10), "[====>     ]");
  EXPECT_EQ(bar(100, 100, 10), "[==========]");
  EXPECT_EQ(bar(500, 100, 10), "[==========]");
  EXPECT_EQ(bar(1, 0, 10), "[>         ]");
}

class Progress : public ::testing::Test {
 protected:
  // What is shown of 3 MiB of 12 after `passed`, the stage having begun with the work.
  std::string shown(milliseconds passed, Console::Look look) {
    const sys::Fd out = sys::memory_file("out", 0);
    const sys::Fd err = sys::memory_file("err", 0);
    Console console(out.get(), err.get(), look);
    const auto start = ImageProgress::Clock::now();
    ImageProgress line(console, "web", false, start);
    line.show({"reading", 0, uint64_t{12} << 20, ""}, start);
    line.show({"reading", uint64_t{3} << 20, uint64_t{12} << 20, ""}, start + passed);
    EXPECT_THAT(content(out), IsEmpty());
    return content(err);
  }
};

TEST_F(Progress, IsShownOnATerminalAfterASecondWithBytesAndRate) {
  const std::string text = shown(milliseconds(1500), {.err_terminal = true});
  EXPECT_THAT(text,
              HasSubstr("image web: reading [=====>              ] 3 MiB of 12 MiB, 1.9 MiB/s"));
}

TEST_F(Progress, OfQuickWorkAndElsewhereIsNotShown) {
  EXPECT_THAT(shown(milliseconds(900), {.err_terminal = true}), IsEmpty());
  EXPECT_THAT(shown(milliseconds(1500), {.err_terminal = false}), IsEmpty());
}

class ImageExport : public ::testing::Test {
 protected:
  ImageExport() {
    paths_.ensure_data();
    sys::make_directories(at("root"), 0755);
    sys::write_file_atomic(at("root/file"), as_bytes(std::string_view("hello")));
    store::Images images(paths_);
    digest_ = image::import_image(images, at("root"), store::parse_image_name("web")).image.digest;
  }
  std::string at(const std::string& name) const { return scratch_.path() + "/" + name; }

  int run(std::vector<std::string> words) {
    words.insert(words.begin(), {"image", "export"});
    const sys::Fd out = sys::memory_file("out", 0);
    const sys::Fd err = sys::memory_file("err", 0);
    Console console(out.get(), err.get(), {});
    Context context{console,
                    [](std::string_view) { return std::nullopt; },
                    paths_,
                    scratch_.path(),
                    "0.1.0",
                    []() -> api::Service& { throw Error(Kind::Internal, "no daemon takes part"); },
                    [] { return nullptr; },
                    [] { return int64_t{0}; }};
    const int code = run_command(context, std::get<Arguments>(parse_command_line(words)));
    said_ = content(out);
    return code;
  }
  Error refused(const std::vector<std::string>& words) {
    try {
      run(words);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "it was written";
    return {Kind::Internal, ""};
  }
  std::string digest_of_import(const std::string& file) {
    store::Images images(paths_);
    return image::import_image(images, at(file), store::parse_image_name("again")).image.digest;
  }
  std::vector<std::string> written() const {
    std::vector<std::string> names;
    for (const std::string& name : sys::list_directory(scratch_.path()))
      if (name != "root" && name != "data") names.push_back(name);
    return names;
  }

  const sys::TempDir scratch_;
  const store::Paths paths_{scratch_.path() + "/run", scratch_.path() + "/data"};
  std::string digest_;
  std::string said_;
};

TEST_F(ImageExport, WritesWhatTheFormatSays) {
  EXPECT_EQ(run({"web", "a.tar"}), 0);
  EXPECT_THAT(said_, HasSubstr("image web: written to a.tar"));
  EXPECT_EQ(run({"web", "folder/"}), 0);
  EXPECT_EQ(run({"--format", "tar", "web", "b.tar.gz"}), 0);
  // The same files and nothing to run give the same bytes, whatever they came in.
  for (const char* file : {"a.tar", "folder", "b.tar.gz"})
    EXPECT_EQ(digest_of_import(file), digest_) << file;
  const std::string packed = sys::read_text_file(at("b.tar.gz"), 1 << 20);
  EXPECT_EQ(packed.substr(0, 2), "\x1f\x8b");
}

TEST_F(ImageExport, ReplacesNothingUnlessForced) {
  sys::write_file_atomic(at("a.tar"), as_bytes(std::string_view("mine")));
  sys::make_directories(at("folder"));
  EXPECT_EQ(refused({"web", "a.tar"}).kind(), Kind::Conflict);
  EXPECT_THAT(refused({"web", "a.tar"}).message(), HasSubstr("--force"));
  EXPECT_EQ(refused({"web", "folder/"}).kind(), Kind::Conflict);
  EXPECT_EQ(sys::read_text_file(at("a.tar"), 1 << 20), "mine");
  EXPECT_EQ(run({"--force", "web", "a.tar"}), 0);
  EXPECT_NE(sys::read_text_file(at("a.tar"), 1 << 20), "mine");
}

TEST_F(ImageExport, ThatFailsLeavesNothing) {
  EXPECT_EQ(refused({"absent", "a.tar"}).kind(), Kind::NotFound);
  const sys::Fd root =
      sys::open_file(paths_.images_dir() + "/" + digest_ + "/root.erofs", O_RDONLY);
  ASSERT_EQ(::truncate((paths_.images_dir() + "/" + digest_ + "/root.erofs").c_str(), 4096), 0);
  EXPECT_EQ(refused({"web", "a.tar"}).kind(), Kind::Invalid);
  EXPECT_EQ(refused({"web", "folder/"}).kind(), Kind::Invalid);
  EXPECT_THAT(written(), IsEmpty());
}

}
}
