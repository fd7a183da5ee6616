// Imports end where the store's quota does, whatever the source says of its size.
#include "unit/image/scratch_store.h"
#include "unit/image/tar_builder.h"

namespace mvm::image {
namespace {

using ::testing::HasSubstr;

class ImportQuota : public ScratchStore {
 protected:
  void set(const std::string& text) {
    sys::write_file_atomic(paths_.image_settings(), as_bytes(text));
  }
  std::string archive(size_t size) {
    return TarBuilder().file("f", std::string(size, 'x')).save(scratch_.path() + "/in.tar");
  }
};

TEST_F(ImportQuota, EndsWhereItDoesAndLeavesNothing) {
  set(R"({"quota": "1M"})");
  const Error error = error_of([&] { import(archive(3 << 20)); });
  EXPECT_EQ(error.kind(), Kind::Exhausted);
  EXPECT_THAT(error.message(), HasSubstr("quota of 1"));
  EXPECT_THAT(error.message(), HasSubstr("mvm image prune"));
  expect_nothing_left();
  set(R"({"quota": "8M"})");
  EXPECT_NO_THROW(import(archive(3 << 20)));
}

TEST_F(ImportQuota, OfAFullStoreBeginsNothingButFindsWhatIsThere) {
  import(archive(3 << 20));
  set(R"({"quota": "1M"})");
  const Error error = error_of([&] { import(archive(10)); });
  EXPECT_THAT(error.message(), HasSubstr("quota of 1"));
  EXPECT_EQ(store::Images(paths_).list().size(), 1U);
}

}
}
