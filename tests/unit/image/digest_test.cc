// The digest of an image is put together while the image is written; whatever way its bytes came,
// it is the digest of what is in the file.

#include <random>

#include <fcntl.h>

#include "mvm/crypto/tree_hash.h"
#include "mvm/image/verify.h"
#include "mvm/sys/io.h"

#include "unit/image/erofs_reader.h"
#include "unit/image/oci_builder.h"
#include "unit/image/scratch_store.h"

namespace mvm::image {
namespace {

std::string noise(size_t size, unsigned seed) {
  std::mt19937 source(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(source());
  return text;
}

class ImageDigest : public ScratchStore {
 protected:
  std::string at(const std::string& name) const { return scratch_.path() + "/" + name; }
  static std::string uuid_of(const Imported& imported) {
    Bytes uuid(16);
    const sys::Fd file = sys::open_file(imported.image.root, O_RDONLY);
    EXPECT_TRUE(sys::pread_exact(file.get(), uuid, 1024 + 48));
    return std::string(as_text(uuid));
  }
  void expect_true(const Imported& imported) {
    const sys::Fd file = sys::open_file(imported.image.root, O_RDONLY);
    EXPECT_EQ(crypto::digest_hex(crypto::tree_of_file(file.get())), imported.image.digest);
    store::Images images(paths_);
    EXPECT_NO_THROW(verify_image(images, imported.image.digest));
  }
};

TEST_F(ImageDigest, OfLayersThatReplaceAndRemoveLargeFiles) {
  const std::string a = noise(2'500'000, 1);
  const std::string b = noise(5'000'001, 2);
  const std::string c = noise(1'234'567, 3);
  OciBuilder image;
  image.layer(TarBuilder().file("a", a).file("b", a).file("c", c).file("small", "1"));
  image.layer(TarBuilder().file("b", b).file(".wh.c", ""));
  image.layer(TarBuilder().file("d/" + std::string(200, 'n'), c));
  const Imported imported = import(image.save(at("layout")));
  expect_true(imported);
  const ErofsReader read(imported.image.root);
  EXPECT_EQ(read.at("a").content, a);
  EXPECT_EQ(read.at("b").content, b);
}

TEST_F(ImageDigest, OfFilesOfAllSizesAroundItsParts) {
  TarBuilder tar;
  unsigned number = 0;
  for (const size_t part : {size_t{4096}, size_t{65'536}, size_t{1} << 20})
    for (const size_t size : {part - 1, part, part + 1, 3 * part + 4095}) {
      const std::string name = "f" + std::to_string(number++);
      tar.file(name, noise(size, number));
    }
  expect_true(import(tar.save(at("sizes.tar"))));
}

TEST_F(ImageDigest, OfADirectoryWithHolesAndLargeFiles) {
  sys::make_directories(at("source"));
  sys::write_file_atomic(at("source/large"), as_bytes(noise(3'500'000, 4)));
  const sys::Fd sparse = sys::open_file(at("source/sparse"), O_RDWR | O_CREAT);
  sys::resize_file(sparse.get(), 40 << 20, "sizing");
  sys::pwrite_all(sparse.get(), as_bytes(noise(2'000'000, 5)), 17 << 20);
  expect_true(import(at("source")));
}

TEST_F(ImageDigest, OfManySmallFiles) {
  TarBuilder tar;
  for (unsigned i = 0; i < 3000; ++i)
    tar.file("d" + std::to_string(i % 7) + "/f" + std::to_string(i), noise(i % 5000, i));
  expect_true(import(tar.save(at("many.tar"))));
}

// The UUID is a name for all the bytes, whole blocks of files among them.
TEST_F(ImageDigest, UuidNamesTheContentOfFilesToo) {
  const Imported one = import(TarBuilder().file("f", noise(8192, 6)).save(at("one.tar")));
  const Imported two = import(TarBuilder().file("f", noise(8192, 7)).save(at("two.tar")));
  EXPECT_NE(uuid_of(one), uuid_of(two));
  EXPECT_NE(one.image.digest, two.image.digest);
}

}
}
