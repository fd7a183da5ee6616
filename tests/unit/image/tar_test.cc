
#include "mvm/base/text.h"
#include "mvm/image/tree.h"

#include "erofs_reader.h"
#include "scratch_store.h"
#include "tar_builder.h"

namespace mvm::image {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TarImport : public ScratchStore {
 protected:
  ErofsReader read(const TarBuilder& tar, const ImportOptions& options = {}) {
    const Imported imported = import(save(tar.bytes()), options);
    notes_ = imported.notes;
    expect_fsck_agrees(imported.image.root);
    return ErofsReader(imported.image.root);
  }
  Error refusal(const TarBuilder& tar, const ImportOptions& options = {}) {
    return refusal_of(tar.bytes(), options);
  }
  Error refusal_of(const std::string& bytes, const ImportOptions& options = {}) {
    const Error error = error_of([&] { import(save(bytes), options); });
    expect_nothing_left();
    return error;
  }
  std::string save(const std::string& bytes) {
    const std::string path = scratch_.path() + "/source.tar";
    sys::write_file_atomic(path, as_bytes(bytes));
    return path;
  }
  std::vector<std::string> notes_;
};

TEST_F(TarImport, KeepsContentModesOwnersAndTimes) {
  TarBuilder tar;
  tar.directory("./").directory("./bin/");
  tar.add({.path = "./bin/su",
           .content = "program",
           .mode = 04755,
           .uid = 70000,
           .gid = 5,
           .mtime = 1'234'567'890});
  const ErofsReader image = read(tar);
  const ReadFile& su = image.at("bin/su");
  EXPECT_EQ(su.content, "program");
  EXPECT_EQ(su.mode, S_IFREG | 04755U);
  EXPECT_EQ(su.uid, 70000U);
  EXPECT_EQ(su.gid, 5U);
  EXPECT_EQ(su.mtime, 1'234'567'890);
  EXPECT_TRUE(su.extended);                // a time and an owner of its own
  EXPECT_FALSE(image.at("bin").extended);  // the time that most have
  EXPECT_EQ(image.at("bin").mode, S_IFDIR | 0755U);
}

TEST_F(TarImport, GivesEverythingToTheOwnerAskedFor) {
  TarBuilder tar;
  tar.add({.path = "a/b", .content = "x", .uid = 1000, .gid = 1000});
  ImportOptions options;
  options.owner = Owner{0, 7};
  const ErofsReader image = read(tar, options);
  EXPECT_EQ(image.at("a/b").uid, 0U);
  EXPECT_EQ(image.at("a/b").gid, 7U);
  EXPECT_EQ(image.at("a").gid, 7U);
}

TEST_F(TarImport, FilesOfEverySizeAroundABlockAreWhole) {
  TarBuilder tar;
  std::map<std::string, std::string> expected;
  for (const size_t size : {0, 1, 511, 512, 4031, 4032, 4033, 4095, 4096, 4097, 8191, 8192, 12289,
                            300'000, 1'200'000}) {
    std::string content(size, '\0');
    for (size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 31 + size);
    expected["f" + std::to_string(size)] = content;
    tar.file("f" + std::to_string(size), content);
  }
  const ErofsReader image = read(tar);
  for (const auto& [path, content] : expected) {
    EXPECT_EQ(image.at(path).size, content.size());
    EXPECT_TRUE(image.at(path).content == content) << path;
  }
}

TEST_F(TarImport, LinksOfBothKinds) {
  TarBuilder tar;
  tar.file("a", "one").hard_link("d/b", "./a").symlink("c", "../etc/passwd");
  const ErofsReader image = read(tar);
  EXPECT_EQ(image.at("a").nid, image.at("d/b").nid);
  EXPECT_EQ(image.at("a").links, 2U);
  EXPECT_EQ(image.at("c").content, "../etc/passwd");
  EXPECT_EQ(image.at("c").mode & S_IFMT, unsigned{S_IFLNK});
}

TEST_F(TarImport, ALongLinkTargetAndALongNameAreKept) {
  const std::string name(255, 'n');
  const std::string target(4095, 't');
  TarBuilder tar;
  tar.add({.path = "short",
           .type = '2',
           .link = target,
           .pax = TarBuilder::pax("path", "d/" + name) + TarBuilder::pax("linkpath", target)});
  EXPECT_EQ(read(tar).at("d/" + name).content, target);
}

TEST_F(TarImport, NamesThatAreNoTextAreKeptAsBytes) {
  TarBuilder tar;
  tar.file("\xff\xfe z\n", "raw")
      .file(
          "gr\xc3\xbc\xc3\x9f"
          "e",
          "utf-8");
  const ErofsReader image = read(tar);
  EXPECT_EQ(image.at("\xff\xfe z\n").content, "raw");
  EXPECT_EQ(image
                .at("gr\xc3\xbc\xc3\x9f"
                    "e")
                .content,
            "utf-8");
}

TEST_F(TarImport, ALaterEntryReplacesAnEarlierOne) {
  TarBuilder tar;
  tar.file("a", "old").file("b", "x").file("a", "newer").symlink("b", "a").directory("d");
  tar.file("d/x", "kept").add({.path = "d", .type = '5', .mode = 0700});
  const ErofsReader image = read(tar);
  EXPECT_EQ(image.at("a").content, "newer");
  EXPECT_EQ(image.at("b").content, "a");
  EXPECT_EQ(image.at("d").mode & 07777U, 0700U);
  EXPECT_EQ(image.at("d/x").content, "kept");
}

TEST_F(TarImport, DeviceNodesGoAndAreCounted) {
  TarBuilder tar;
  tar.add({.path = "dev/sda", .type = '4'}).add({.path = "dev/null", .type = '3'});
  tar.add({.path = "dev/pipe", .type = '6'}).hard_link("dev/disk", "dev/sda");
  const ErofsReader image = read(tar);
  EXPECT_EQ(image.files.count("dev/sda") + image.files.count("dev/null"), 0U);
  EXPECT_EQ(image.files.count("dev/disk"), 0U);
  EXPECT_EQ(image.at("dev/pipe").mode & S_IFMT, unsigned{S_IFIFO});
  EXPECT_THAT(notes_, ::testing::ElementsAre("2 device nodes were left out"));
}

TEST_F(TarImport, CapabilitiesAndUserAttributesStayOthersGo) {
  const std::string capability("\1\0\0\2\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
  TarBuilder tar;
  tar.add({.path = "ping",
           .content = "x",
           .pax = TarBuilder::pax("SCHILY.xattr.security.capability", capability) +
                  TarBuilder::pax("SCHILY.xattr.user.note", "hello") +
                  TarBuilder::pax("SCHILY.xattr.security.selinux", "label") +
                  TarBuilder::pax("SCHILY.xattr.trusted.overlay.opaque", "y")});
  const ErofsReader image = read(tar);
  const std::map<std::string, std::string> expected{{"security.capability", capability},
                                                    {"user.note", "hello"}};
  EXPECT_EQ(image.at("ping").xattrs, expected);
  EXPECT_EQ(image.at("ping").content, "x");
}

TEST_F(TarImport, AttributesThatFillABlockLeaveTheContentWhole) {
  for (const size_t size : {3900, 4000, 4100, 9000, 60000}) {
    const std::string value(size, 'v');
    TarBuilder tar;
    tar.add({.path = "f",
             .content = std::string(100, 'c'),
             .pax = TarBuilder::pax("SCHILY.xattr.user.big", value)});
    const ErofsReader image = read(tar);
    EXPECT_EQ(image.at("f").content, std::string(100, 'c'));
    EXPECT_EQ(image.at("f").xattrs.at("user.big"), value);
  }
}

TEST_F(TarImport, ASparseFileKeepsItsHoles) {
  // GNU sparse format 1.0: the map is in front of the data.
  const std::string map = "2\n0\n4096\n1048576\n512\n";
  std::string body = map + std::string(512 - map.size(), '\0');
  body += std::string(4096, 'a') + std::string(512, 'b');
  TarBuilder tar;
  tar.add({.path = "GNUSparseFile.0/big",
           .content = body,
           .pax = TarBuilder::pax("GNU.sparse.major", "1") +
                  TarBuilder::pax("GNU.sparse.minor", "0") +
                  TarBuilder::pax("GNU.sparse.name", "big") +
                  TarBuilder::pax("GNU.sparse.realsize", "67108864")});
  const Imported imported = import(save(tar.bytes()));
  EXPECT_LT(imported.image.manifest.size, 512U * 1024);
  expect_fsck_agrees(imported.image.root);
  const ReadFile big = ErofsReader(imported.image.root).at("big");
  std::string expected(67108864, '\0');
  expected.replace(0, 4096, std::string(4096, 'a'));
  expected.replace(1048576, 512, std::string(512, 'b'));
  EXPECT_EQ(big.size, expected.size());
  EXPECT_TRUE(big.content == expected);
}

struct Hostile {
  const char* what;
  TarBuilder tar;
  Kind kind;
  const char* says;
};

std::vector<Hostile> hostile() {
  std::vector<Hostile> cases;
  const auto add = [&](const char* what, const TarBuilder& tar, const char* says,
                       Kind kind = Kind::Invalid) { cases.push_back({what, tar, kind, says}); };
  add("absolute path", TarBuilder().file("/etc/passwd", "x"), "\"/etc/passwd\": absolute");
  add("parent", TarBuilder().file("../x", "x"), "\"../x\": paths with \"..\"");
  add("parent inside", TarBuilder().file("a/../../x", "x"), "\"..\"");
  add("through a link", TarBuilder().symlink("d", "/etc").file("d/passwd", "x"),
      "\"d\" in its path is a symbolic link");
  add("through a file", TarBuilder().file("d", "x").file("d/e", "x"), "no directory");
  add("link to nothing", TarBuilder().hard_link("a", "b"), "not in the archive before it");
  add("link to a later file", TarBuilder().hard_link("a", "b").file("b", "x"), "before it");
  add("link out", TarBuilder().file("b", "x").hard_link("a", "../b"), "its link target");
  add("absolute link", TarBuilder().file("b", "x").hard_link("a", "/b"), "absolute");
  add("link to a directory", TarBuilder().directory("d").hard_link("a", "d"), "directories");
  add("link to itself", TarBuilder().hard_link("a", "a"), "before it");
  add("directory replaced", TarBuilder().file("d/e", "x").file("d", "x"), "not empty");
  add("directory replaced by a link", TarBuilder().file("d/e", "x").symlink("d", "/"), "not empty");
  add("root is a file", TarBuilder().file("./", "x").file(".", "x"), "");
  add("name too long",
      TarBuilder().add({.path = "x", .pax = TarBuilder::pax("path", std::string(256, 'n'))}),
      "longer than 255");
  std::string deep;
  for (size_t i = 0; i < kMaxDepth + 1; ++i) deep += "d/";
  add("too deep", TarBuilder().add({.path = "x", .pax = TarBuilder::pax("path", deep + "f")}),
      "too deep");
  add("empty target", TarBuilder().symlink("a", ""), "target is empty");
  add("huge attribute",
      TarBuilder().add({.path = "x",
                        .pax = TarBuilder::pax("SCHILY.xattr.user.a", std::string(40000, 'v')) +
                               TarBuilder::pax("SCHILY.xattr.user.b", std::string(40000, 'v'))}),
      "64 KiB of extended", Kind::Exhausted);
  add("escape sequence in a name", TarBuilder().file("/\x1b[2J", "x"), "\\x1b[2J");
  return cases;
}

TEST_F(TarImport, RefusesWhatIsHostileAndLeavesNothing) {
  for (const Hostile& test : hostile()) {
    const Error error = refusal(test.tar);
    EXPECT_EQ(error.kind(), test.kind) << test.what << ": " << error.what();
    EXPECT_THAT(error.message(), HasSubstr(test.says)) << test.what;
    EXPECT_THAT(error.message(), HasSubstr("source.tar")) << test.what;
  }
}

TEST_F(TarImport, TheDeepestAndTheLongestThatIsAllowedIsKept) {
  std::string deep;
  for (size_t i = 0; i < kMaxDepth - 1; ++i) deep += "d/";
  TarBuilder tar;
  tar.add({.path = "x", .pax = TarBuilder::pax("path", deep + "f")});
  EXPECT_EQ(read(tar).files.size(), kMaxDepth + 1);
}

TEST_F(TarImport, AnArchiveCutAnywhereIsRefused) {
  TarBuilder tar;
  tar.file("a", std::string(3000, 'x')).file("b", "y");
  const std::string whole = tar.bytes_without_end();
  for (size_t length = 0; length <= whole.size(); length += 128) {
    const Error error = refusal_of(whole.substr(0, length));
    EXPECT_EQ(error.kind(), Kind::Invalid) << length;
  }
}

TEST_F(TarImport, WhatIsNoArchiveIsRefused) {
  EXPECT_THAT(refusal_of("this is a text, not an archive\n").message(), HasSubstr("tar archive"));
  EXPECT_THAT(refusal_of("").message(), HasSubstr("tar archive"));
  EXPECT_EQ(refusal_of(std::string(4096, '\xff')).kind(), Kind::Invalid);
}

TEST_F(TarImport, LimitsHold) {
  ImportOptions options;
  options.limits.content = 10'000;
  EXPECT_EQ(refusal(TarBuilder().file("a", std::string(10'001, 'x')), options).kind(),
            Kind::Exhausted);
  EXPECT_EQ(
      refusal(TarBuilder().file("a", std::string(6'000, 'x')).file("b", std::string(6'000, 'x')),
              options)
          .kind(),
      Kind::Exhausted);
  // What is replaced counts as well: it has been written.
  EXPECT_EQ(
      refusal(TarBuilder().file("a", std::string(6'000, 'x')).file("a", std::string(6'000, 'x')),
              options)
          .kind(),
      Kind::Exhausted);
  EXPECT_EQ(read(TarBuilder().file("a", std::string(8'192, 'x')), options).at("a").size, 8'192U);

  ImportOptions few;
  few.limits.entries = 3;  // the root is one
  EXPECT_EQ(read(TarBuilder().file("a", "").file("b", ""), few).files.size(), 3U);
}

TEST_F(TarImport, TooManyEntriesAreRefused) {
  ImportOptions few;
  few.limits.entries = 3;
  EXPECT_EQ(refusal(TarBuilder().file("a", "").file("b", "").file("c", ""), few).kind(),
            Kind::Exhausted);
  EXPECT_EQ(refusal(TarBuilder().file("a/b/c/d", ""), few).kind(), Kind::Exhausted);
  ImportOptions narrow;
  narrow.limits.metadata = 1000;
  EXPECT_EQ(refusal(TarBuilder()
                        .symlink("a", std::string(100, 't'))
                        .file("b", "")
                        .file("c", "")
                        .file("d", "")
                        .file("e", "")
                        .file("f", "")
                        .file("g", "")
                        .file("h", ""),
                    narrow)
                .kind(),
            Kind::Exhausted);
}

struct Compressor {
  const char* program;
  const char* suffix;
};
constexpr Compressor kCompressors[] = {{"/usr/bin/gzip", ".gz"},
                                       {"/usr/bin/bzip2", ".bz2"},
                                       {"/usr/bin/xz", ".xz"},
                                       {"/usr/bin/zstd", ".zst"}};

// The archive compressed by a host program; empty when there is no such program.
std::string compressed(const Compressor& with, const std::string& path) {
  if (run_tool({with.program, "-q", "-k", "-f", path}) != 0) return {};
  const Bytes bytes = sys::read_file(path + with.suffix, size_t{64} << 20);
  return std::string(as_text(bytes));
}

TEST_F(TarImport, EveryCompressionGivesTheSameImage) {
  TarBuilder tar;
  tar.file("a", "first").file("b", std::string(100'000, 'z'));
  const std::string plain = scratch_.path() + "/plain.tar";
  tar.save(plain);
  const std::string digest = import(plain).image.digest;
  size_t tried = 0;
  for (const Compressor& compressor : kCompressors) {
    const std::string bytes = compressed(compressor, plain);
    if (bytes.empty()) continue;
    ++tried;
    EXPECT_EQ(import(save(bytes)).image.digest, digest) << compressor.program;
  }
  EXPECT_GT(tried, 0U);
}

TEST_F(TarImport, ACutOrBombingCompressedArchiveIsRefused) {
  TarBuilder tar;
  tar.file("a", std::string(20'000'000, '\0'));
  const std::string plain = scratch_.path() + "/plain.tar";
  tar.save(plain);
  ImportOptions options;
  options.limits.content = 1'000'000;
  for (const Compressor& compressor : kCompressors) {
    const std::string bomb = compressed(compressor, plain);
    if (bomb.empty()) continue;
    ASSERT_LT(bomb.size(), 100'000U);
    EXPECT_EQ(refusal_of(bomb, options).kind(), Kind::Exhausted) << compressor.program;
    EXPECT_EQ(refusal_of(bomb.substr(0, bomb.size() / 2)).kind(), Kind::Invalid)
        << compressor.program;
  }
}

TEST_F(TarImport, TheSameArchiveGivesTheSameBytes) {
  TarBuilder tar;
  for (int i = 0; i < 300; ++i)
    tar.file("d" + std::to_string(i % 7) + "/" + std::to_string(i),
             std::string(static_cast<size_t>(i) * 37, 'x'));
  const Imported first = import(save(tar.bytes()));
  const Imported second = import(save(tar.bytes()));
  EXPECT_FALSE(first.existed);
  EXPECT_TRUE(second.existed);
  EXPECT_EQ(first.image.digest, second.image.digest);
}

}
}
