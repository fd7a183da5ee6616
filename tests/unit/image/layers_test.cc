// Layers over each other, each trick of a hostile or merely old builder as an archive of its own.

#include <sys/stat.h>

#include "unit/image/erofs_reader.h"
#include "unit/image/oci_builder.h"
#include "unit/image/scratch_store.h"

namespace mvm::image {
namespace {

using ::testing::HasSubstr;
using Entry = TarBuilder::Entry;

class Layers : public ScratchStore {
 protected:
  std::string layout(const std::vector<TarBuilder>& layers) {
    OciBuilder image;
    for (const TarBuilder& layer : layers) image.layer(layer);
    return image.save(scratch_.path() + "/layout");
  }
  ErofsReader merged(const std::vector<TarBuilder>& layers) {
    imported_ = import(layout(layers));
    expect_fsck_agrees(imported_.image.root);
    return ErofsReader(imported_.image.root);
  }
  std::string refused(const std::vector<TarBuilder>& layers) {
    const std::string source = layout(layers);
    const Error error = error_of([&] { import(source); });
    EXPECT_EQ(error.kind(), Kind::Invalid);
    expect_nothing_left();
    return error.message();
  }
  static std::string paths(const ErofsReader& image) {
    std::string text;
    for (const auto& [path, file] : image.files)
      if (!path.empty()) text += (text.empty() ? "" : " ") + path;
    return text;
  }
  Imported imported_;
};

TEST_F(Layers, AddAndReplaceFiles) {
  const auto image = merged({TarBuilder().file("a", "old").file("b", "kept"),
                             TarBuilder().file("a", "new").directory("d").file("d/c", "added")});
  EXPECT_EQ(image.at("a").content, "new");
  EXPECT_EQ(image.at("b").content, "kept");
  EXPECT_EQ(image.at("d/c").content, "added");
}

TEST_F(Layers, WhiteoutRemovesAFileAndAWholeDirectory) {
  const auto image =
      merged({TarBuilder().file("f", "x").directory("d").directory("d/e").file("d/e/g", "x"),
              TarBuilder().file(".wh.f", "").file(".wh.d", "")});
  EXPECT_EQ(paths(image), "");
}

TEST_F(Layers, WhiteoutOfAnyKindOfEntryCounts) {
  const auto image = merged({TarBuilder().file("a", "x").file("b", "x").file("c", "x"),
                             TarBuilder()
                                 .file("t", "")
                                 .hard_link(".wh.a", "t")
                                 .add({.path = ".wh.b", .type = '3'})
                                 .directory(".wh.c")});
  EXPECT_EQ(paths(image), "t");
}

TEST_F(Layers, WhiteoutDoesNotTouchItsOwnLayerWhereverItStands) {
  for (const bool first : {false, true}) {
    TarBuilder upper;
    if (first) upper.file(".wh.d", "");
    upper.directory("d").file("d/new", "n");
    if (!first) upper.file(".wh.d", "");
    const auto image = merged({TarBuilder().directory("d").file("d/old", "o"), upper});
    EXPECT_EQ(paths(image), "d d/new") << first;
  }
}

TEST_F(Layers, WhiteoutKeepsWhatItsLayerPutBelowADirectoryItDoesNotName) {
  const auto image = merged({TarBuilder().directory("d").file("d/old", "o").directory("d/e"),
                             TarBuilder().file("d/e/new", "n").file(".wh.d", "")});
  EXPECT_EQ(paths(image), "d d/e d/e/new");
}

TEST_F(Layers, OpaqueDirectoryHidesLowerLayersOnly) {
  for (const bool first : {false, true}) {
    TarBuilder upper;
    upper.directory("d");
    if (first) upper.file("d/.wh..wh..opq", "");
    upper.file("d/new", "n");
    if (!first) upper.file("d/.wh..wh..opq", "");
    const auto image = merged({TarBuilder()
                                   .directory("d")
                                   .file("d/old", "o")
                                   .directory("d/sub")
                                   .file("d/sub/old", "o")
                                   .file("keep", "k"),
                               upper});
    EXPECT_EQ(paths(image), "d d/new keep") << first;
  }
}

TEST_F(Layers, WhiteoutOfNothingAndTraitsOfAufsAreFine) {
  const auto image = merged({TarBuilder().file("a", "x"), TarBuilder()
                                                              .file(".wh.none", "")
                                                              .file("no/such/.wh.file", "")
                                                              .directory(".wh..wh.plnk")
                                                              .file(".wh..wh.aufs", "")});
  EXPECT_EQ(paths(image), "a");
}

TEST_F(Layers, WhiteoutsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(refused({TarBuilder().file(".wh.", "")}), HasSubstr("hides nothing"));
  EXPECT_THAT(refused({TarBuilder().file(".wh..", "")}), HasSubstr("hides nothing"));
  EXPECT_THAT(refused({TarBuilder().file("a/.wh...", "").file("x", ""),
                       TarBuilder().directory("a").file("a/.wh...", "")}),
              HasSubstr("hides nothing"));
  EXPECT_THAT(refused({TarBuilder().file(".wh.d/f", "")}), HasSubstr("a whiteout is no directory"));
}

TEST_F(Layers, AFileHiddenInOneLayerMayComeBackInTheNext) {
  const auto image = merged({TarBuilder().file("a", "one"), TarBuilder().file(".wh.a", ""),
                             TarBuilder().file("a", "three")});
  EXPECT_EQ(image.at("a").content, "three");
}

// I2: layer 1 has two names of one file, layer 2 removes the one that held the content.
TEST_F(Layers, HardLinkOutlivesTheNameItWasMadeFrom) {
  const auto image = merged({TarBuilder().file("LINK-A", "content").hard_link("LINK-Z", "LINK-A"),
                             TarBuilder().file(".wh.LINK-A", "")});
  EXPECT_EQ(paths(image), "LINK-Z");
  EXPECT_EQ(image.at("LINK-Z").content, "content");
  EXPECT_EQ(image.at("LINK-Z").links, 1U);
}

TEST_F(Layers, HardLinkToAFileOfALowerLayer) {
  const auto image = merged({TarBuilder().file("a", "content"), TarBuilder().hard_link("b", "a")});
  EXPECT_EQ(image.at("b").nid, image.at("a").nid);
  EXPECT_EQ(image.at("a").links, 2U);
}

TEST_F(Layers, HardLinkToItselfAndOverItsTargetsDirectoryKeepsTheContent) {
  const auto image = merged({TarBuilder().file("a", "self").directory("d").file("d/f", "moved"),
                             TarBuilder().hard_link("a", "a").hard_link("d", "d/f")});
  EXPECT_EQ(image.at("a").content, "self");
  EXPECT_EQ(image.at("d").content, "moved");
  EXPECT_EQ(image.at("d").links, 1U);
}

TEST_F(Layers, ReplacingOneNameOfAFileLeavesTheOthers) {
  const auto image =
      merged({TarBuilder().file("a", "old").hard_link("b", "a"), TarBuilder().file("a", "new")});
  EXPECT_EQ(image.at("a").content, "new");
  EXPECT_EQ(image.at("b").content, "old");
}

TEST_F(Layers, HardLinkToAHiddenOrMissingFileIsRefused) {
  EXPECT_THAT(
      refused({TarBuilder().file("a", "x"), TarBuilder().file(".wh.a", "").hard_link("b", "a")}),
      HasSubstr("links to \"a\", which is not there"));
  EXPECT_THAT(refused({TarBuilder().hard_link("b", "../etc/shadow")}), HasSubstr("\"..\""));
  EXPECT_THAT(refused({TarBuilder().hard_link("b", "/etc/shadow")}), HasSubstr("absolute"));
  EXPECT_THAT(refused({TarBuilder().directory("d").hard_link("b", "d")}),
              HasSubstr("hard links to directories"));
}

TEST_F(Layers, FileOverDirectoryAndDirectoryOverFile) {
  const auto image =
      merged({TarBuilder().directory("d").file("d/f", "x").file("f", "x").symlink("l", "f"),
              TarBuilder().file("d", "a file").directory("f").file("f/g", "below").directory("l")});
  EXPECT_EQ(paths(image), "d f f/g l");
  EXPECT_EQ(image.at("d").content, "a file");
  EXPECT_TRUE(S_ISDIR(image.at("l").mode));
}

TEST_F(Layers, DirectoryOverDirectoryTakesTheNewOwnerAndKeepsTheContent) {
  const auto image =
      merged({TarBuilder().directory("d").file("d/f", "x"),
              TarBuilder().add({.path = "d", .type = '5', .mode = 01775, .uid = 70000, .gid = 8})});
  EXPECT_EQ(image.at("d").mode & 07777U, 01775U);
  EXPECT_EQ(image.at("d").uid, 70000U);
  EXPECT_EQ(image.at("d/f").content, "x");
}

TEST_F(Layers, PathsThatLeadElsewhereAreRefused) {
  EXPECT_THAT(refused({TarBuilder().file("/etc/passwd", "")}), HasSubstr("absolute"));
  EXPECT_THAT(refused({TarBuilder().file("../passwd", "")}), HasSubstr("\"..\""));
  EXPECT_THAT(refused({TarBuilder().directory("a").file("a/../../b", "")}), HasSubstr("\"..\""));
  EXPECT_THAT(refused({TarBuilder().file("../.wh.x", "")}), HasSubstr("\"..\""));
}

TEST_F(Layers, SymbolicLinksAreNeverFollowed) {
  const TarBuilder lower = TarBuilder().symlink("out", "/etc").symlink("up", "../..");
  EXPECT_THAT(refused({lower, TarBuilder().file("out/passwd", "x")}),
              HasSubstr("\"out\" in its path is a symbolic link"));
  EXPECT_THAT(refused({lower, TarBuilder().file("up/x", "x")}), HasSubstr("a symbolic link"));
  EXPECT_THAT(refused({lower, TarBuilder().file("out/.wh.passwd", "")}),
              HasSubstr("a symbolic link"));
  EXPECT_THAT(refused({lower, TarBuilder().hard_link("x", "out/passwd")}),
              HasSubstr("which is not there"));
}

TEST_F(Layers, SlashAloneIsTheRoot) {
  const auto image = merged({TarBuilder().add({.path = "/", .type = '5', .mode = 0711})});
  EXPECT_EQ(image.at("").mode & 07777U, 0711U);
}

TEST_F(Layers, DevicesAreDroppedAndHideWhatLiesBelow) {
  const auto image =
      merged({TarBuilder().directory("dev").file("dev/sda", "a file").file("dev/b", "x"),
              TarBuilder()
                  .add({.path = "dev/sda", .type = '4'})
                  .add({.path = "dev/tty", .type = '3'})
                  .hard_link("dev/tty2", "dev/tty")});
  EXPECT_EQ(paths(image), "dev dev/b");
  EXPECT_THAT(imported_.notes, ::testing::ElementsAre(HasSubstr("2 device nodes")));
}

TEST_F(Layers, OwnersModesAndAttributesAreKept) {
  const auto image = merged(
      {TarBuilder().add({.path = "bin",
                         .content = "x",
                         .mode = 06755,
                         .uid = 1000,
                         .gid = 100000,
                         .pax = TarBuilder::pax("SCHILY.xattr.user.note", "hello") +
                                TarBuilder::pax("SCHILY.xattr.trusted.overlay.opaque", "y")})});
  EXPECT_EQ(image.at("bin").mode & 07777U, 06755U);
  EXPECT_EQ(image.at("bin").uid, 1000U);
  EXPECT_EQ(image.at("bin").gid, 100000U);
  EXPECT_EQ(image.at("bin").xattrs.at("user.note"), "hello");
  EXPECT_EQ(image.at("bin").xattrs.size(), 1U);
}

TEST_F(Layers, SetIdIsDroppedWhereThePolicySaysSo) {
  const std::string source = layout({TarBuilder()
                                         .add({.path = "bin", .content = "x", .mode = 06755})
                                         .add({.path = "shared", .type = '5', .mode = 02775})});
  ImportOptions options;
  options.drop_set_id = true;
  const Imported imported = import(source, options);
  const ErofsReader image(imported.image.root);
  EXPECT_EQ(image.at("bin").mode & 07777U, 0755U);
  EXPECT_EQ(image.at("shared").mode & 07777U, 02775U);
  EXPECT_FALSE(import(source).existed);  // the other policy is other work
}

TEST_F(Layers, LongNamesOfBothKindsAndUnicode) {
  const std::string name(250, 'n');
  const std::string deep = name + "/" + std::string(200, 'm');
  const std::string link(300, 'l');
  const auto image = merged(
      {TarBuilder()
           .directory("x")
           .add({.path = "short", .type = 'L', .content = name + '\0'})
           .file("cut", "gnu")
           .add({.path = "cut", .content = "pax", .pax = TarBuilder::pax("path", "x/" + name)})
           .add({.path = "link",
                 .type = '2',
                 .link = link,
                 .pax = TarBuilder::pax("linkpath", link)})
           .add({.path = "u", .content = "umlaut", .pax = TarBuilder::pax("path", "ü/日本")})
           .add({.path = "bytes\xff", .content = "raw"})});
  EXPECT_EQ(image.at(name).content, "gnu");
  EXPECT_EQ(image.at("x/" + name).content, "pax");
  EXPECT_EQ(image.at("link").content, link);
  EXPECT_EQ(image.at("ü/日本").content, "umlaut");
  EXPECT_EQ(image.at("bytes\xff").content, "raw");
}

TEST_F(Layers, RemovedContentIsNotInTheImage) {
  const std::string secret = "the quick brown secret";
  std::string big;
  while (big.size() < 3 << 20) big += secret;
  merged({TarBuilder().file("secret", big).file("kept", std::string(100'000, 'k')),
          TarBuilder().file(".wh.secret", "")});
  const std::string bytes = sys::read_text_file(imported_.image.root, 64 << 20);
  EXPECT_EQ(bytes.find(secret), bytes.npos);
  struct stat status{};
  ASSERT_EQ(::stat(imported_.image.root.c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 1 << 20);
}

TEST_F(Layers, EndMarkAndPaddingMayBeMissingButNoContent) {
  const auto import_tar = [&](const std::string& tar) {
    OciBuilder image;
    image.layer(tar, gzip(tar));
    return import(image.save(scratch_.path() + "/bare"));
  };
  const std::string tar = TarBuilder().file("f", std::string(700, 'x')).bytes_without_end();
  for (const size_t size : {size_t{512 + 1024}, size_t{512 + 700}}) {
    const ErofsReader image(import_tar(tar.substr(0, size)).image.root);
    EXPECT_EQ(image.at("f").content, std::string(700, 'x')) << size;
  }
  for (const size_t size : {512 + 699, 512 + 512, 512 + 1, 512, 300})
    EXPECT_EQ(error_of([&] { import_tar(tar.substr(0, static_cast<size_t>(size))); }).kind(),
              Kind::Invalid)
        << size;
}

TEST_F(Layers, TheSameLayersGiveTheSameBytes) {
  const std::vector<TarBuilder> layers{TarBuilder().file("a", "x").directory("d").file("d/b", "y"),
                                       TarBuilder().file(".wh.a", "").file("c", "z")};
  const std::string first = merged(layers).at("c").content + imported_.image.digest;
  store::Images(paths_).remove("test", {});
  EXPECT_EQ(merged(layers).at("c").content + imported_.image.digest, first);
  EXPECT_FALSE(imported_.existed);
}

TEST_F(Layers, HundredLayersAndAnEmptyOne) {
  std::vector<TarBuilder> layers;
  for (int i = 0; i < 100; ++i)
    layers.push_back(TarBuilder()
                         .file("same", std::to_string(i))
                         .file("file" + std::to_string(i), "x")
                         .file(".wh.file" + std::to_string(i - 1), ""));
  layers.emplace_back();
  const auto image = merged(layers);
  EXPECT_EQ(paths(image), "file99 same");
  EXPECT_EQ(image.at("same").content, "99");
}

}
}
