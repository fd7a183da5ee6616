// What goes out comes in again as it was, by any of the formats; other programs agree.
#include "mvm/image/export.h"

#include <fstream>

#include <sys/stat.h>
#include <sys/xattr.h>

#include "mvm/sys/io.h"

#include "unit/image/erofs_reader.h"
#include "unit/image/oci_builder.h"
#include "unit/image/scratch_store.h"
#include "unit/image/tar_builder.h"

namespace mvm::image {
namespace {

using ::testing::HasSubstr;

bool operator==(const ReadFile& a, const ReadFile& b) {
  return a.mode == b.mode && a.uid == b.uid && a.gid == b.gid && a.mtime == b.mtime &&
         a.mtime_nsec == b.mtime_nsec && a.links == b.links && a.size == b.size &&
         a.content == b.content && a.xattrs == b.xattrs;
}

void expect_same_files(const std::string& one, const std::string& other) {
  const ErofsReader left(one);
  const ErofsReader right(other);
  for (const auto& [path, file] : left.files) {
    ASSERT_TRUE(right.files.contains(path)) << path;
    EXPECT_TRUE(file == right.at(path)) << path;
  }
  EXPECT_EQ(left.files.size(), right.files.size());
}

class Export : public ScratchStore {
 protected:
  std::string at(const std::string& name) const { return scratch_.path() + "/" + name; }

  Imported import_tar_of(const TarBuilder& tar, const store::ImageConfig& config = {}) {
    sys::write_file_atomic(at("source.tar"), as_bytes(tar.bytes()));
    ImportOptions options;
    options.config = config;
    return import(at("source.tar"), options);
  }

  // With one of everything that an image can hold.
  static TarBuilder everything() {
    return everything_small().file("big", std::string(3 << 20, 'b') + "end");
  }
  static TarBuilder everything_small() {
    TarBuilder tar;
    tar.add({.path = "./", .type = '5', .mode = 0711, .uid = 7});
    tar.directory("bin");
    tar.add({.path = "bin/su", .content = "set-uid", .mode = 04755});
    tar.hard_link("bin/also-su", "bin/su");
    tar.hard_link("zz-su", "bin/su");
    tar.symlink("link", "bin/su");
    tar.symlink("long-link", std::string(3000, 't'));
    tar.add({.path = "fifo", .type = '6', .mode = 0600});
    for (const size_t size : {0U, 1U, 511U, 512U, 513U, 4095U, 4096U, 4097U, 10000U})
      tar.file("size" + std::to_string(size), std::string(size, 'x'));
    tar.add({.path = "owner",
             .content = "far",
             .pax = TarBuilder::pax("uid", "3000000000") + TarBuilder::pax("gid", "4000000000")});
    tar.add({.path = "early", .content = "old", .pax = TarBuilder::pax("mtime", "-5.25")});
    tar.add({.path = "exact", .pax = TarBuilder::pax("mtime", "1700000000.123456789")});
    tar.add({.path = "attributes",
             .content = "a",
             .pax = TarBuilder::pax("SCHILY.xattr.user.note", std::string("a\0=\nb", 5)) +
                    TarBuilder::pax("SCHILY.xattr.security.capability", std::string(20, '\1'))});
    std::string deep;
    for (int i = 0; i < 30; ++i) deep += "a-rather-long-name/";
    tar.add({.path = "x", .content = "deep", .pax = TarBuilder::pax("path", deep + "file")});
    tar.add({.path = "y", .content = "u", .pax = TarBuilder::pax("path", "größe-日本")});
    tar.add({.path = "caf\xe9", .content = "latin"});
    tar.add({.path = "z",
             .content = "l2",
             .pax = TarBuilder::pax("path", "bin/" + std::string(255, 'n'))});
    return tar;
  }

  std::string export_to_tar(const store::Image& image, Packing packing = Packing::None) {
    const std::string path = at("out.tar");
    const sys::Fd out = sys::open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
    export_tar(image, out.get(), {packing, ""});
    return path;
  }
};

TEST_F(Export, AsTarKeepsEverything) {
  const Imported first = import_tar_of(everything());
  for (const Packing packing : {Packing::None, Packing::Gzip, Packing::Zstd}) {
    const Imported again = import(export_to_tar(first.image, packing));
    expect_same_files(first.image.root, again.image.root);
  }
}

TEST_F(Export, GivesTheSameBytesEachTime) {
  const Imported image = import_tar_of(everything());
  for (const Packing packing : {Packing::None, Packing::Gzip, Packing::Zstd}) {
    const Bytes once = sys::read_file(export_to_tar(image.image, packing), 64 << 20);
    EXPECT_EQ(once, sys::read_file(export_to_tar(image.image, packing), 64 << 20));
  }
}

TEST_F(Export, AsOciLayoutAndArchiveKeepsEverythingAndTheConfiguration) {
  const store::ImageConfig config{
      {"/bin/app", "-v"},
      {"serve"},
      {"A=b", "C=\"d\""},
      "7:8",
      "/bin",
      "SIGINT",
      {{"x.y", "z"}},
      proto::HealthCheck{{"/bin/h", "a b"}, 1'000, 2'000, 3'000, 4'000, 5}};
  const Imported first = import_tar_of(everything(), config);
  for (const Packing packing : {Packing::None, Packing::Gzip, Packing::Zstd}) {
    const std::string layout = at("layout" + std::to_string(static_cast<int>(packing)));
    sys::make_directories(layout);
    export_oci_layout(first.image, layout, {packing, "v1"});
    const sys::Fd archive = sys::open_file(at("oci.tar"), O_WRONLY | O_CREAT | O_TRUNC);
    const sys::Fd scratch = sys::open_file(scratch_.path(), O_RDWR | O_TMPFILE);
    export_oci_archive(first.image, archive.get(), scratch.get(), {packing, "v1"});
    for (const std::string& source : {layout, at("oci.tar")}) {
      const Imported again = import(source);
      expect_same_files(first.image.root, again.image.root);
      EXPECT_EQ(again.image.manifest.config, config);
    }
  }
}

// However it came: what layers replaced and removed is in no copy of it.
TEST_F(Export, OfEveryKindOfSourceComesInAgain) {
  OciBuilder layered;
  layered
      .layer(TarBuilder()
                 .file("a/old", std::string(200'000, 'o'))
                 .file("a/kept", std::string(9'000, 'k'))
                 .hard_link("b", "a/kept")
                 .file("gone", std::string(70'000, 'g')))
      .layer(TarBuilder()
                 .file("a/old", "new")
                 .file(".wh.gone", "")
                 .add({.path = "c", .content = "c", .uid = 1000U, .gid = 1000U}));
  layered.config["config"] = {{"User", "1000:1000"}, {"Cmd", {"serve"}}};
  const std::string folder = at("folder");
  sys::make_directories(folder + "/etc", 0755);
  sys::write_file_atomic(folder + "/etc/name", as_bytes("x\n"), 0644);
  TarStream stream;
  stream.shown = "flake";
  stream.kind = "flake";
  stream.key = "flake:k";
  stream.attributes = {{"/f", 0640, {5, 6}}};
  const std::string streamed = TarBuilder().file("f", "content").bytes();
  bool sent = false;
  stream.next = [&]() -> ByteView {
    return std::exchange(sent, true) ? ByteView{} : as_bytes(streamed);
  };
  store::Images images(paths_);
  ImportOptions options;
  options.config.user = "5:6";
  options.config.kernel = "own-0123";  // which stays here: OCI images have none
  const std::vector<Imported> kinds{
      import(layered.save(at("layered"))), import(folder),
      import_tar(images, stream, store::parse_image_name("flake"), options, {})};
  EXPECT_EQ(kinds[2].image.manifest.source_kind, "flake");
  for (size_t i = 0; i < kinds.size(); ++i) {
    const store::Image& image = kinds[i].image;
    expect_same_files(image.root, import(export_to_tar(image)).image.root);
    const std::string layout = at("again" + std::to_string(i));
    sys::make_directories(layout);
    export_oci_layout(image, layout, {});
    const Imported again = import(layout);
    expect_same_files(image.root, again.image.root);
    store::ImageConfig config = image.manifest.config;
    config.kernel.clear();
    EXPECT_EQ(again.image.manifest.config, config);
  }
}

TEST_F(Export, OfHolesTakesNoRoom) {
  const std::string source = at("holes");
  sys::make_directories(source);
  const auto sparse = [&](const char* name, std::vector<uint64_t> data, uint64_t size) {
    const sys::Fd fd = sys::open_file(source + "/" + name, O_WRONLY | O_CREAT);
    for (const uint64_t offset : data)
      sys::pwrite_all(fd.get(), as_bytes(std::string_view("data")), offset);
    sys::resize_file(fd.get(), size, "sizing");
  };
  sparse("all-hole", {}, uint64_t{2} << 20);
  sparse("ends-in-one", {0, 1 << 20}, uint64_t{3} << 20);
  sparse("begins-with-one", {(2 << 20) - 4}, 2 << 20);
  sparse("huge", {uint64_t{1} << 40}, uint64_t{2} << 40);
  const Imported first = import(source);
  const std::string tar = export_to_tar(first.image);
  struct stat status{};
  ASSERT_EQ(::stat(tar.c_str(), &status), 0);
  EXPECT_LT(status.st_size, 256 << 20);  // a chunk of the huge one is 128 MiB
  // What can be read whole is the same; the huge one would not fit into memory here.
  const Imported again = import(tar);
  EXPECT_EQ(again.image.manifest.content_bytes, first.image.manifest.content_bytes);
  EXPECT_LT(again.image.manifest.size, 256U << 20);
}

TEST_F(Export, ByTarOfAnotherKindIsTheSame) {
  const Imported image = import_tar_of(everything());
  const std::string tar = export_to_tar(image.image);
  sys::make_directories(at("unpacked"));
  const int code = run_tool({"/usr/bin/tar", "-C", at("unpacked"), "-xpf", tar, "--no-same-owner"});
  if (code == -1) GTEST_SKIP() << "tar is not installed";
  ASSERT_EQ(code, 0);
  const ErofsReader files(image.image.root);
  for (const auto& [path, file] : files.files) {
    struct stat status{};
    ASSERT_EQ(::lstat((at("unpacked") + "/" + path).c_str(), &status), 0) << path;
    EXPECT_EQ(status.st_mode & S_IFMT, file.mode & S_IFMT) << path;
    if (S_ISREG(status.st_mode)) {
      EXPECT_EQ(sys::read_text_file(at("unpacked") + "/" + path, 64 << 20), file.content) << path;
    }
    if (!S_ISDIR(status.st_mode)) {
      EXPECT_EQ(status.st_mtim.tv_sec, file.mtime) << path;
    }
  }
}

TEST_F(Export, AsALayerRefusesWhatWouldBeAWhiteout) {
  const Imported image = import_tar_of(TarBuilder().file("dir/.wh.other", "w"));
  sys::make_directories(at("layout"));
  const Error error = error_of([&] { export_oci_layout(image.image, at("layout"), {}); });
  EXPECT_EQ(error.kind(), Kind::Unsupported);
  EXPECT_THAT(error.message(), HasSubstr("dir/.wh.other"));
  EXPECT_THAT(error.message(), HasSubstr("--format tar"));
  expect_same_files(image.image.root, import(export_to_tar(image.image)).image.root);
}

TEST_F(Export, OfADamagedImageEndsWithALineWhereverTheDamageIs) {
  const Imported image = import_tar_of(everything_small());
  const Bytes whole = sys::read_file(image.image.root, 64 << 20);
  store::Image damaged = image.image;
  damaged.root = at("damaged.erofs");
  const sys::Fd sink = sys::open_file("/dev/null", O_WRONLY);
  sys::write_file_atomic(damaged.root, whole);
  const sys::Fd file = sys::open_file(damaged.root, O_RDWR);
  unsigned refused = 0;
  // The first block, and from the inodes on; the bytes of files are anybody's guess.
  for (size_t offset = 1024; offset < whole.size(); offset += 97) {
    if (offset > 4096 && offset < whole.size() - size_t{20} * 4096) continue;
    Bytes bytes(whole.begin() + static_cast<std::ptrdiff_t>(offset),
                whole.begin() + static_cast<std::ptrdiff_t>(std::min(offset + 8, whole.size())));
    const Bytes kept = bytes;
    for (std::byte& byte : bytes) byte ^= std::byte{0xff};
    sys::pwrite_all(file.get(), bytes, offset);
    try {
      export_tar(damaged, sink.get(), {});
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.kind(), Kind::Invalid) << error.message();
      EXPECT_THAT(error.message(), HasSubstr("damaged"));
    }
    sys::pwrite_all(file.get(), kept, offset);
  }
  EXPECT_GT(refused, 20U);
  for (const size_t length : {size_t{0}, size_t{1024}, size_t{4096}, whole.size() - 4096}) {
    sys::write_file_atomic(damaged.root, ByteView(whole).first(length));
    EXPECT_EQ(error_of([&] { export_tar(damaged, sink.get(), {}); }).kind(), Kind::Invalid);
  }
}

TEST_F(Export, EndsWhenItsProgressThrows) {
  const Imported image = import_tar_of(everything());
  const sys::Fd sink = sys::open_file("/dev/null", O_WRONLY);
  EXPECT_EQ(error_of([&] {
              export_tar(image.image, sink.get(), {}, [](uint64_t, std::optional<uint64_t>, Phase) {
                throw Error(Kind::Unavailable, "enough");
              });
            }).message(),
            "image " + image.image.digest.substr(0, 12) + ": \"big\": enough");
}

}
}
