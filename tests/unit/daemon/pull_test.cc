// Pulls as the daemon does them: with its settings file and the host's credentials, named as they
// were asked for; what holds for sandboxes of such images; and what is left of them in the end.

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/scope_exit.h"

#include "fixture.h"
#include "unit/image/oci_builder.h"
#include "unit/registry/fake_registry.h"

namespace mvm::daemon {

using image::OciBuilder;
using image::TarBuilder;
using registry::FakeRegistry;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Pulls : public DaemonTest {
 protected:
  Pulls() : registry_([this](const FakeRegistry::Request& request) { return answer(request); }) {
    OciBuilder image;
    image.layer(TarBuilder().file("etc/hostname", "pulled\n"));
    manifest_ = image.manifest().dump();
    pin_ = image::digest_of(manifest_);
    blobs_ = image.blobs;
  }

  std::string answer(const FakeRegistry::Request& request) const {
    if (!password_.empty() && !request.has("Authorization: Basic " + password_))
      return FakeRegistry::reply("401 Unauthorized", "WWW-Authenticate: Basic realm=\"r\"\r\n", "");
    const std::string path = request.path();
    const std::string name = path.substr(path.rfind('/') + 1);
    if (path == "/v2/org/app/manifests/v1" || name == pin_)
      return FakeRegistry::ok(manifest_,
                              "Content-Type: application/vnd.oci.image.manifest.v1+json\r\n");
    const auto blob = blobs_.find(name);
    if (blob == blobs_.end()) return FakeRegistry::reply("404 Not Found", "", "");
    return FakeRegistry::ok(blob->second);
  }

  api::Image pull(const std::string& reference, const std::string& name = "") const {
    return client()->pull_image({reference, name, "", false},
                                [](const api::ImportProgress&) { return true; });
  }
  api::Sandbox create_from(const std::string& image) const {
    api::SandboxSpec wanted = spec("web");
    wanted.image = image;
    return client()->create(wanted);
  }
  void settings(const std::string& json) const {
    sys::write_file_atomic(paths_.registries_file(), as_bytes(json));
  }
  std::string app() const { return registry_.host() + "/org/app"; }

  std::string manifest_;
  std::string pin_;
  std::map<std::string, std::string> blobs_;
  std::string password_;  // base 64 of USER:PASSWORD; empty: none is needed
  FakeRegistry registry_;
};

TEST_F(Pulls, ByDigestAreKeptUnderIt) {
  start();
  const api::Image image = pull(app() + "@" + pin_);
  EXPECT_EQ(image.source_digest, pin_);
  EXPECT_EQ(image.source_kind, "registry");
  EXPECT_THAT(image.names, ElementsAre(app() + ":sha256-" + pin_.substr(7, 12)));
  EXPECT_EQ(client()->image(app() + "@" + pin_).digest, image.digest);
  EXPECT_EQ(registry_.asked_for("manifests/v1"), 0U);
  const Error error = error_of([&] { pull(app() + "@sha256:" + std::string(64, '0')); });
  EXPECT_EQ(error.kind(), Kind::NotFound) << error.message();
}

TEST_F(Pulls, AreNamedAsTheyWereAskedForOrAsIsSaid) {
  start();
  EXPECT_THAT(pull(app() + ":v1").names, ElementsAre(app() + ":v1"));
  EXPECT_THAT(pull(app() + ":v1", "mine").names, ElementsAre(app() + ":v1", "mine:latest"));
  EXPECT_THAT(pull(app() + ":v1@" + pin_, "b:2").names,
              ElementsAre(app() + ":v1", "b:2", "mine:latest"));
}

TEST_F(Pulls, TakeTheMirrorsOfTheSettingsFile) {
  start();
  settings(R"({"mirrors": {"example.test": ["http://)" + registry_.host() + R"("]}})");
  EXPECT_THAT(pull("example.test/org/app:v1").names, ElementsAre("example.test/org/app:v1"));
  settings("{");
  EXPECT_THAT(error_of([&] { pull(app() + ":v1"); }).message(),
              AllOf(HasSubstr(paths_.registries_file()), HasSubstr("mend it")));
}

TEST_F(Pulls, TakePasswordsFromTheAuthFileAndWhatIsHereNeedsNone) {
  const std::string file = temporary_.path() + "/auth.json";
  ::setenv("MVM_AUTH_FILE", file.c_str(), 1);
  const ScopeExit forget([] { ::unsetenv("MVM_AUTH_FILE"); });
  password_ = "dXNlcjpzZWNyZXQ=";  // user:secret
  start();
  sys::write_file_atomic(file, as_bytes(R"({"auths": {")" + registry_.host() + R"(": {"auth": ")" +
                                        password_ + R"("}}})"));
  pull(app() + ":v1");
  // After a logout: a pull asks, and is refused; what was pulled is used without asking.
  sys::write_file_atomic(file, as_bytes("{}"));
  const size_t before = registry_.requests().size();
  create_from(app() + ":v1");
  EXPECT_EQ(registry_.requests().size(), before);
  EXPECT_EQ(error_of([&] { pull(app() + ":v1"); }).kind(), Kind::Denied);
}

TEST_F(Pulls, AreStartedByDigestAloneWhereThatIsRequired) {
  start();
  const api::Image image = pull(app() + ":v1");
  settings(R"({"require_digest": true})");
  try {
    create_from(app() + ":v1");
    ADD_FAILURE() << "it was created";
  } catch (const api::ApiError& error) {
    EXPECT_EQ(error.kind(), Kind::Denied);
    EXPECT_THAT(error.message(), HasSubstr("require_digest"));
    EXPECT_THAT(error.hint(), HasSubstr(pin_));
  }
  EXPECT_THAT(client()->sandboxes(true), IsEmpty());
  client()->tag_image(app() + ":v1", {"local"});
  EXPECT_EQ(error_of([&] { create_from("local"); }).kind(), Kind::Denied);
  for (const std::string& pinned :
       {app() + "@" + pin_, app() + ":v1@" + pin_, image.digest, image.digest.substr(0, 12)}) {
    EXPECT_EQ(create_from(pinned).state, SandboxState::Running) << pinned;
    client()->remove("web", true);
  }
  // What was made here came from no registry.
  EXPECT_EQ(create_from("base").state, SandboxState::Running);
  EXPECT_EQ(error_of([&] { pull(app() + ":v1"); }).kind(), Kind::Denied);
}

TEST_F(Pulls, PruneLeavesNothingOfThemAndSaysBeforeHowMuch) {
  start();
  client()->remove_image("base", false);
  pull(app() + ":v1");
  const api::PruneResult would = client()->prune_images({true, true});
  EXPECT_EQ(would.images.size(), 1U);
  EXPECT_EQ(would.layers, 1U);
  EXPECT_GT(would.bytes, 0U);
  EXPECT_EQ(client()->images().size(), 1U);
  client()->remove_image(app() + ":v1", false);
  const api::PruneResult layers = client()->prune_images({true, false});
  EXPECT_EQ(layers.layers, 1U);
  EXPECT_THAT(sys::list_directory(paths_.images_dir()), IsEmpty());
  EXPECT_THAT(sys::list_directory(paths_.blobs_dir()), IsEmpty());
}

// Running or ended: a sandbox that is there can be started again.
TEST_F(Pulls, PruneKeepsWhatASandboxWasMadeFrom) {
  start();
  client()->remove_image("base", false);
  const api::Image image = pull(app() + ":v1");
  create_from(app() + ":v1");
  const auto pruned = [&] {
    const api::PruneResult result = client()->prune_images({true, false});
    return result.images.size() + result.layers;
  };
  EXPECT_EQ(pruned(), 0U);
  client()->stop("web", {});
  EXPECT_EQ(pruned(), 0U);
  EXPECT_EQ(client()->start("web", {}).state, SandboxState::Running);
  client()->remove("web", true);
  EXPECT_EQ(pruned(), 2U);
  EXPECT_THAT(sys::list_directory(paths_.images_dir()), IsEmpty());
  EXPECT_EQ(error_of([&] { client()->image(image.digest); }).kind(), Kind::NotFound);
}

// What a disk has lost: said before anything is started, and mended by pulling it again.
TEST_F(Pulls, OfADamagedImageMendIt) {
  start();
  const api::Image image = pull(app() + ":v1");
  const std::string root = paths_.images_dir() + "/" + image.digest + "/root.erofs";
  sys::write_file_atomic(root, {});
  EXPECT_THAT(error_of([&] { create_from(app() + ":v1"); }).message(),
              AllOf(HasSubstr(root + " has 0 bytes"), HasSubstr("pull")));
  EXPECT_THAT(client()->sandboxes(true), IsEmpty());
  EXPECT_EQ(pull(app() + ":v1").digest, image.digest);
  EXPECT_EQ(create_from(app() + ":v1").state, SandboxState::Running);
}

TEST_F(Pulls, ADamagedKernelIsRefusedBeforeAnythingStarts) {
  start();
  const std::string source = temporary_.path() + "/k";
  sys::make_directories(source);
  sys::write_file_atomic(source + "/vmlinux", as_bytes("another"));
  sys::write_file_atomic(source + "/bundle.json", as_bytes(R"({"name":"k","image":"vmlinux"})"));
  const api::Kernel kernel = client()->import_kernel({source, true});
  sys::write_file_atomic(kernel.image, {});
  EXPECT_THAT(error_of([&] { create_from("base"); }).message(), HasSubstr("vmlinux"));
  EXPECT_THAT(client()->sandboxes(true), IsEmpty());
  const auto kernels = client()->kernels();
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_THAT(kernels[0].problem, HasSubstr("vmlinux"));
  client()->remove_kernel("k", false);
  EXPECT_EQ(create_from("base").state, SandboxState::Running);
}

}
