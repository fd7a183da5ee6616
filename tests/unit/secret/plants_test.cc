// Whatever stands where the stored secrets lie: no other file is touched.
#include "../../support/plants.h"

#include "mvm/secret/store.h"

namespace mvm::secret {
namespace {

TEST(StoredSecrets, TouchNothingElse) {
  const sys::TempDir scratch;
  const std::string directory = scratch.path() + "/secrets";
  Store store(directory);
  store.set("KEPT", {.value = "v"});
  for (const char* name : {"", "/lock", "/key", "/values"})
    test::with_each_plant(directory + name, [&] {
      store.set("KEY", {.value = "value"});
      store.read();
      store.remove("KEY");
    });
  EXPECT_EQ(store.read().at("KEPT").value, "v") << "all is as it was";
}

}
}
