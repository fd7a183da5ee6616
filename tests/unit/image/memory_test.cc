// What an import keeps in memory, with as many files as real images have.
#include "unit/image/memory_growth.h"
#include "unit/image/oci_builder.h"
#include "unit/image/scratch_store.h"
#include "unit/image/tar_builder.h"

namespace mvm::image {
namespace {

constexpr int kFiles = 200'000;

std::string path_of(int number) {
  return "usr/lib/package" + std::to_string(number / 500) + "/some-file-name" +
         std::to_string(number) + ".py";
}

class ImportMemory : public ScratchStore {};

TEST_F(ImportMemory, OfManyFilesInOneArchive) {
  TarStream stream;
  stream.shown = "stream";
  stream.kind = "tar";
  Bytes piece;
  int number = 0;
  stream.next = [&]() -> ByteView {
    TarBuilder tar;
    const int end = std::min(number + 100, kFiles);
    if (number == kFiles) return {};
    for (; number < end; ++number) tar.file(path_of(number), "content " + std::to_string(number));
    const std::string bytes = end == kFiles ? tar.bytes() : tar.bytes_without_end();
    piece.assign(as_bytes(bytes).begin(), as_bytes(bytes).end());
    return piece;
  };
  store::Images images(paths_);
  Imported imported;
  const uint64_t growth = growth_of(
      [&] { imported = import_tar(images, stream, store::parse_image_name("many"), {}, {}); });
  EXPECT_GE(imported.image.manifest.files, kFiles);
  expect_fsck_agrees(imported.image.root);
  if (kMeasured) {
    EXPECT_LT(growth, kMostGrowth);
  }
}

TEST_F(ImportMemory, OfManyFilesInHundredLayers) {
  {
    OciBuilder image;
    for (int layer = 0; layer < 100; ++layer) {
      TarBuilder tar;
      for (int i = 0; i < kFiles / 100; ++i)
        tar.file(path_of(layer * (kFiles / 100) + i), "content");
      tar.file("same", std::to_string(layer));
      image.layer(tar);
    }
    image.save(scratch_.path() + "/layout");
  }
  store::Images images(paths_);
  Imported imported;
  const uint64_t growth = growth_of([&] {
    imported =
        import_image(images, scratch_.path() + "/layout", store::parse_image_name("many"), {}, {});
  });
  EXPECT_GE(imported.image.manifest.files, kFiles);
  if (kMeasured) {
    EXPECT_LT(growth, kMostGrowth);
  }
}

TEST_F(ImportMemory, OfWhatIsLeftOutIsBounded) {
  TarBuilder tar;
  for (int i = 0; i < 200; ++i)
    tar.add({.path = std::string(90, 'd') + std::to_string(i), .type = '3'});
  ImportOptions options;
  options.limits.metadata = 10'000;
  const Error error =
      error_of([&] { import(tar.save(scratch_.path() + "/devices.tar"), options); });
  EXPECT_EQ(error.kind(), Kind::Exhausted);
}

TEST_F(ImportMemory, OfMapsOfHolesIsBounded) {
  const std::string source = scratch_.path() + "/sparse";
  sys::make_directories(source);
  for (int i = 0; i < 8; ++i) {
    const sys::Fd fd = sys::open_file(source + "/f" + std::to_string(i), O_WRONLY | O_CREAT);
    sys::resize_file(fd.get(), uint64_t{1} << 30, "sizing");
  }
  ImportOptions options;
  options.limits.metadata = 100'000;  // a map is 64 KiB
  EXPECT_EQ(error_of([&] { import(source, options); }).kind(), Kind::Exhausted);
}

}
}
