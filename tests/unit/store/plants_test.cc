// Whatever stands where images and layers lie: no other file is touched.
#include "../../support/plants.h"

#include <unistd.h>

#include "mvm/store/blobs.h"
#include "mvm/store/images.h"
#include "mvm/sys/io.h"

namespace mvm::store {
namespace {

class StorePlants : public testing::Test {
 protected:
  StorePlants() { paths_.ensure_data(); }

  void add(const std::string& content) {
    Images images(paths_);
    Staging staging = images.stage();
    sys::write_file_atomic(staging.root(), as_bytes(content));
    Manifest manifest;
    manifest.digest = std::string(63, '0') + content;
    manifest.size = content.size();
    images.commit(std::move(staging), manifest, parse_image_name("web"));
  }

  const sys::TempDir scratch_;
  const Paths paths_{scratch_.path() + "/run", scratch_.path() + "/data"};
};

TEST_F(StorePlants, WhereALayerLies) {
  const Blobs blobs(paths_);
  const oci::Digest digest = oci::Digest::of(as_bytes("layer"));
  const auto fetch = [&] {
    const sys::Fd held = blobs.hold();
    if (blobs.find(digest)) return;
    auto partial = blobs.begin(digest);
    ASSERT_TRUE(partial);
    sys::write_all(partial->fd(), as_bytes("layer"));
    blobs.commit(std::move(*partial), digest);
  };
  for (const char* prefix : {"/", "/.part-"}) {
    const std::string path = paths_.blobs_dir() + prefix + digest.hex();
    test::with_each_plant(path, fetch);
    blobs.remove(digest);
    test::with_each_plant(path, [&] { blobs.prune({}); });
  }
  test::with_each_plant(paths_.blobs_dir(), [&] {
    paths_.ensure_data();
    fetch();
  });
}

TEST_F(StorePlants, WhereImagesAreListed) {
  add("1");
  for (const std::string& path : {paths_.image_settings(), paths_.image_names(),
                                  paths_.images_dir() + "/" + std::string(63, '0') + "2"})
    test::with_each_plant(path, [&] { add("2"); });
  EXPECT_EQ(Images(paths_).get("sha256:" + std::string(63, '0') + "1").manifest.size, 1U);
}

}
}
