// What module build reads out of the builder: image.json, Nix's answers, lock files, error texts.
#include "mvm/base/error.h"
#include "mvm/build/flake.h"
#include "mvm/build/guest_image.h"
#include "mvm/build/nix.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mvm;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto attempt = [](auto&& read) {
    try {
      read();
    } catch (const Error&) {
      // Refused, with a reason.
    }
  };
  attempt([&] {
    const build::GuestImage image = build::parse_guest_image(text);
    MVM_ASSERT(build::is_store_path(image.root));
    MVM_ASSERT(image.entrypoint.size() <= build::kMaxWords && image.env.size() <= build::kMaxNames);
  });
  attempt([&] { MVM_ASSERT(build::is_store_path(build::built_path(text))); });
  attempt([&] {
    for (const std::string& path : build::store_paths(text)) MVM_ASSERT(build::is_store_path(path));
  });
  attempt([&] { build::pins_of(text); });
  attempt([&] {
    const build::FlakeRef flake = build::parse_flake(text);
    MVM_ASSERT(flake.local.empty() != flake.remote.empty());
    build::is_pinned(flake);
  });
  const build::Explanation why = build::explain(text);
  MVM_ASSERT(why.derivation.empty() || build::is_store_path(why.derivation));
  return 0;
}
