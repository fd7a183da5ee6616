// OCI images on disk: what is promised is checked, what is not understood is refused with a reason.

#include <thread>

#include <sys/stat.h>

#include "unit/image/erofs_reader.h"
#include "unit/image/oci_builder.h"
#include "unit/image/scratch_store.h"

namespace mvm::image {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = OciBuilder::Json;

class OciSources : public ScratchStore {
 protected:
  std::string at(const std::string& name) const { return scratch_.path() + "/" + name; }

  // A tar archive of these files.
  std::string archive(const std::map<std::string, std::string>& files, bool compressed = false) {
    TarBuilder tar;
    for (const auto& [path, content] : files) tar.file(path, content);
    const std::string bytes = compressed ? gzip(tar.bytes()) : tar.bytes();
    sys::write_file_atomic(at("archive.tar"), as_bytes(bytes));
    return at("archive.tar");
  }
  Error refused(const std::string& source, const ImportOptions& options = {}) {
    const Error error = error_of([&] { import(source, options); });
    expect_nothing_left();
    return error;
  }
  static std::string file_in(const Imported& imported, const std::string& path = "f") {
    return ErofsReader(imported.image.root).at(path).content;
  }
  static OciBuilder one(const std::string& text) {
    OciBuilder image;
    image.layer(TarBuilder().file("f", text));
    return image;
  }
  std::map<std::string, std::string> docker(OciBuilder& image, const std::string& tag) {
    std::map<std::string, std::string> files;
    Json layers = Json::array();
    int number = 0;
    for (const Json& layer : image.layers()) {
      const std::string path = "l" + std::to_string(number++) + ".tar";
      layers.push_back("blobs/" + path);
      files["blobs/" + path] = image.blobs.at(layer["digest"].get<std::string>());
    }
    const std::string config = image.config.dump();
    const std::string name = digest_of(config).substr(7) + ".json";
    files[name] = config;
    files["manifest.json"] =
        Json::array({{{"Config", name}, {"RepoTags", {tag}}, {"Layers", layers}}}).dump();
    return files;
  }
};

TEST_F(OciSources, LayoutInADirectoryAndInArchivesIsOneImage) {
  OciBuilder image = one("text");
  image.config["config"] = {{"Entrypoint", {"/bin/e"}}, {"Cmd", {"c"}},
                            {"Env", {"A=b"}},           {"User", "7:8"},
                            {"WorkingDir", "/w"},       {"StopSignal", "SIGINT"},
                            {"Labels", {{"k", "v"}}}};
  image.config["config"]["Healthcheck"] = {{"Test", {"CMD", "/bin/h"}},
                                           {"Interval", 2'000'000'000}};
  const Json index = OciBuilder::index({image.entry()});
  const Imported imported = import(image.save(at("layout"), index));
  EXPECT_EQ(file_in(imported), "text");
  const store::Manifest& manifest = imported.image.manifest;
  EXPECT_EQ(manifest.source_kind, "oci-layout");
  EXPECT_EQ(manifest.source_digest, index["manifests"][0]["digest"]);
  EXPECT_THAT(manifest.layers, ElementsAre(image.layers()[0]["digest"].get<std::string>()));
  EXPECT_EQ(manifest.config, (store::ImageConfig{{"/bin/e"},
                                                 {"c"},
                                                 {"A=b"},
                                                 "7:8",
                                                 "/w",
                                                 "SIGINT",
                                                 {{"k", "v"}},
                                                 proto::HealthCheck{{"/bin/h"}, 2'000}}));

  for (const bool compressed : {false, true}) {
    const Imported again = import(archive(image.files(index), compressed));
    EXPECT_TRUE(again.existed);
    EXPECT_EQ(again.image.digest, imported.image.digest);
  }
}

TEST_F(OciSources, TheSameFilesWithAnotherConfigurationAreAnotherImage) {
  OciBuilder image = one("text");
  const auto digest_with = [&](const Json& config) {
    image.config["config"] = config;
    return import(image.save(at("health" + std::to_string(config.size())))).image.digest;
  };
  EXPECT_NE(digest_with(Json::object()),
            digest_with({{"Healthcheck", {{"Test", {"CMD", "true"}}}}}));
  image.config["config"] = {{"Cmd", {"a"}}};
  const Imported first = import(image.save(at("a")));
  image.config["config"] = {{"Cmd", {"b"}}};
  const Imported second = import(image.save(at("b")));
  EXPECT_NE(first.image.digest, second.image.digest);
  EXPECT_THAT(store::Images(paths_).get(first.image.digest).manifest.config.cmd, ElementsAre("a"));
  EXPECT_THAT(store::Images(paths_).get(second.image.digest).manifest.config.cmd, ElementsAre("b"));
}

// Layers packed anew are another manifest of the same image; both digests find it in turn.
TEST_F(OciSources, TheSameImageFromAnotherManifestIsFoundByThatOne) {
  const std::string tar = TarBuilder().file("f", "x").bytes();
  OciBuilder packed;
  packed.layer(tar, gzip(tar));
  OciBuilder plain;
  plain.layer(tar, tar);
  const Imported first = import(packed.save(at("a")));
  const Imported second = import(plain.save(at("b")));
  EXPECT_EQ(first.image.digest, second.image.digest);
  EXPECT_TRUE(store::Images(paths_).find("any@" + digest_of(plain.manifest().dump())).has_value());
}

TEST_F(OciSources, KindOfAnArchiveIsRecorded) {
  OciBuilder image = one("text");
  const Imported oci = import(archive(image.files(OciBuilder::index({image.entry()}))));
  EXPECT_EQ(oci.image.manifest.source_kind, "oci-archive");
  OciBuilder other = one("other");
  const Imported saved = import(archive(docker(other, "x:1"), true));
  EXPECT_EQ(saved.image.manifest.source_kind, "docker-archive");
  EXPECT_EQ(file_in(saved), "other");
}

TEST_F(OciSources, LayersMayBePlainGzipOrZstdWhateverTheirLabelSays) {
  const std::string a = TarBuilder().file("a", "1").bytes();
  const std::string b = TarBuilder().file("b", "2").bytes();
  const std::string c = TarBuilder().file("c", "3").bytes();
  OciBuilder image;
  image.layer(a, a).layer(b, zstd(b), "application/vnd.oci.image.layer.v1.tar+zstd");
  image.layer(c, gzip(c.substr(0, 700)) + gzip(c.substr(700)),
              "application/vnd.docker.image.rootfs.diff.tar.gzip");
  const ErofsReader read(import(image.save(at("layout"))).image.root);
  EXPECT_EQ(read.at("a").content + read.at("b").content + read.at("c").content, "123");
}

TEST_F(OciSources, ImageIsChosenByPlatform) {
  OciBuilder intel = one("amd64");
  OciBuilder arm = one("arm64");
  arm.config["architecture"] = "arm64";
  const Json inner =
      OciBuilder::index({arm.entry({{"os", "linux"}, {"architecture", "arm64"}, {"variant", "v8"}}),
                         intel.entry({{"os", "unknown"}, {"architecture", "unknown"}}),
                         intel.entry({{"os", "linux"}, {"architecture", "amd64"}})});
  for (const auto& [digest, content] : arm.blobs) intel.blobs[digest] = content;
  Json outer = intel.descriptor("application/vnd.oci.image.index.v1+json", inner.dump());
  intel.save(at("layout"), OciBuilder::index({outer}));

  ImportOptions options;
  const Imported imported = import(at("layout"));
  EXPECT_EQ(file_in(imported), "amd64");
  EXPECT_EQ(imported.image.manifest.source_index, outer["digest"]);
  options.selection.platform = oci::parse_platform("linux/arm64");
  EXPECT_EQ(file_in(import(at("layout"), options)), "arm64");
  options.selection.platform = oci::parse_platform("linux/s390x");
  const Error none = error_of([&] { import(at("layout"), options); });
  EXPECT_EQ(none.kind(), Kind::NotFound);
  EXPECT_THAT(none.message(), HasSubstr("there is: linux/arm64/v8, linux/amd64"));
}

TEST_F(OciSources, ImageIsChosenByNameAndNeverGuessed) {
  OciBuilder image = one("one");
  OciBuilder other = one("two");
  const Json index = OciBuilder::index({image.entry(nullptr, "v1"), other.entry(nullptr, "v2")});
  for (const auto& [digest, content] : other.blobs) image.blobs[digest] = content;
  image.save(at("layout"), index);
  EXPECT_THAT(refused(at("layout")).message(), HasSubstr("2 images (v1, v2); choose one"));
  ImportOptions options;
  options.selection.reference = "v2";
  EXPECT_EQ(file_in(import(at("layout"), options)), "two");
  options.selection.reference = "v3";
  EXPECT_THAT(error_of([&] { import(at("layout"), options); }).message(),
              HasSubstr("no image \"v3\" in it; there is: v1, v2"));
}

TEST_F(OciSources, ImageOfAnotherPlatformIsRefused) {
  OciBuilder image = one("x");
  image.config["architecture"] = "riscv64";
  EXPECT_EQ(refused(image.save(at("layout"))).kind(), Kind::Unsupported);
}

TEST_F(OciSources, BlobsThatAreNotWhatTheyPromiseAreRefused) {
  const std::string tar = TarBuilder().file("f", std::string(300'000, 'x')).bytes();
  const auto layer_digest = [](OciBuilder& image) {
    return image.layers()[0]["digest"].get<std::string>();
  };
  {
    OciBuilder image;
    image.layer(tar, gzip(tar));
    image.save(at("a"));
    image.blobs[layer_digest(image)].back() ^= 1;  // of gzip's own length
    EXPECT_THAT(refused(image.save(at("a"))).message(), HasSubstr("layer 1 of 1"));
    image.blobs[layer_digest(image)] = gzip(TarBuilder().file("f", "evil").bytes());
    EXPECT_THAT(refused(image.save(at("a"))).message(), HasSubstr("bytes, not the"));
  }
  {
    OciBuilder image;
    image.layer(tar, tar);
    std::string& blob = image.blobs[layer_digest(image)];
    blob[600] = 'y';
    EXPECT_THAT(refused(image.save(at("b"))).message(), HasSubstr("not what its digest promises"));
  }
  {
    OciBuilder image;
    image.layer(tar, gzip(TarBuilder().file("f", "another").bytes()));
    EXPECT_THAT(refused(image.save(at("c"))).message(),
                HasSubstr("not what the image's configuration promises"));
  }
  {
    OciBuilder image = one("x");
    image.save(at("d"));
    const std::string config = digest_of(image.config.dump());
    image.blobs[config] = image.config.dump() + " ";
    image.save(at("d"), OciBuilder::index({image.entry()}));
    sys::write_file_atomic(at("d") + "/blobs/sha256/" + config.substr(7),
                           as_bytes(image.config.dump() + " "));
    EXPECT_THAT(refused(at("d")).message(), HasSubstr("bytes, not the"));
  }
}

// The next layer is unpacked while a large one is read; what is wrong with it is its own fault.
TEST_F(OciSources, WhatIsWrongWithALayerIsSaidOfThatOne) {
  const std::string large = TarBuilder().file("large", std::string(30 << 20, 'l')).bytes();
  const std::string tar = TarBuilder().file("f", std::string(3 << 20, 'x')).bytes();
  const auto refusal = [&](const std::string& packed, size_t cut) {
    OciBuilder image;
    image.layer(large, large).layer(tar, packed).layer(TarBuilder().file("g", "1"));
    const std::string digest = image.layers()[1]["digest"];
    image.blobs[digest].resize(packed.size() - cut);
    const std::string message = refused(image.save(at("layout"))).message();
    EXPECT_THAT(message, HasSubstr("layer 2 of 3"));
    sys::remove_tree(at("layout"));
    return message;
  };
  EXPECT_THAT(refusal(tar, 1000), HasSubstr("bytes, not the"));
  EXPECT_THAT(refusal(gzip(tar).substr(0, 1000), 0), HasSubstr("cut off"));
  EXPECT_THAT(refusal(gzip("no archive"), 0), HasSubstr("configuration promises"));
  OciBuilder image;
  image.layer(large, large).layer(tar, tar);
  image.save(at("gone"));
  sys::remove_file(at("gone") + "/blobs/sha256/" + digest_of(tar).substr(7));
  EXPECT_THAT(refused(at("gone")).message(), HasSubstr("layer 2 of 2"));
}

// One whose damage is found while the other is read, which fails first.
TEST_F(OciSources, OfTwoDamagedLayersTheLowerOneIsNamed) {
  const std::string large = TarBuilder().file("large", std::string(30 << 20, 'l')).bytes();
  OciBuilder image;
  image.layer(large.substr(0, large.size() - 1) + "x", large);
  image.layer(TarBuilder().file("f", "x").bytes(), "no archive");
  EXPECT_THAT(refused(image.save(at("layout"))).message(), HasSubstr("layer 1 of 2"));
}

TEST_F(OciSources, LayersTogetherUnpackToNoMoreThanTheirBound) {
  const std::string tar = TarBuilder().file("f", std::string(20 << 20, 'x')).bytes();
  OciBuilder image;
  for (int i = 0; i < 3; ++i) image.layer(tar, tar);
  image.save(at("layout"));
  ImportOptions options;
  options.limits.unpacked = 50 << 20;
  const Error error = refused(at("layout"), options);
  EXPECT_EQ(error.kind(), Kind::Exhausted);
  EXPECT_THAT(error.message(), HasSubstr("layer 3 of 3"));
  EXPECT_THAT(error.message(), HasSubstr("unpack to more than 50 MiB"));
}

TEST_F(OciSources, TrailingBytesOfALayerAreVerifiedToo) {
  const std::string tar = TarBuilder().file("f", "x").bytes();
  OciBuilder image;
  image.layer(tar, gzip(tar + std::string(100'000, 'z')));
  EXPECT_THAT(refused(image.save(at("layout"))).message(), HasSubstr("configuration promises"));
}

TEST_F(OciSources, CutAndDamagedCompressionIsRefused) {
  const std::string tar = TarBuilder().file("f", std::string(300'000, 'x')).bytes();
  for (const std::string& packed : {gzip(tar), zstd(tar)}) {
    OciBuilder cut;
    cut.layer(tar, packed.substr(0, packed.size() / 2));
    EXPECT_THAT(refused(cut.save(at("cut"))).message(), HasSubstr("cut off"));
    std::string broken = packed;
    for (size_t i = packed.size() / 3; i < packed.size() / 2; ++i) broken[i] ^= 0x55;
    OciBuilder damaged;
    damaged.layer(tar, broken);
    EXPECT_EQ(refused(damaged.save(at("damaged"))).kind(), Kind::Invalid);
  }
}

TEST_F(OciSources, BombsEndAtTheirBounds) {
  const std::string zeros(size_t{160} << 20, '\0');
  TarBuilder tar;
  tar.add({.path = "zeros", .content = zeros});
  const std::string bytes = tar.bytes();
  OciBuilder image;
  image.layer(bytes, zstd(bytes));  // more than 10000 times
  const Error ratio = refused(image.save(at("ratio")));
  EXPECT_EQ(ratio.kind(), Kind::Exhausted);
  EXPECT_THAT(ratio.message(), HasSubstr("only a bomb does"));

  OciBuilder other;
  other.layer(bytes, gzip(bytes));  // less than 1100 times
  ImportOptions options;
  options.limits.unpacked = 50 << 20;
  EXPECT_THAT(refused(other.save(at("absolute")), options).message(),
              HasSubstr("it unpacks to more than 50 MiB"));
  options = {};
  options.limits.content = 20 << 20;
  EXPECT_EQ(refused(at("absolute"), options).kind(), Kind::Exhausted);
}

TEST_F(OciSources, UnknownMediaTypesAreRefusedByName) {
  const auto with_layer = [&](const std::string& type) {
    OciBuilder image;
    const std::string tar = TarBuilder().file("f", "x").bytes();
    image.layer(tar, tar, type);
    return refused(image.save(at("layout")));
  };
  const Error unknown = with_layer("application/vnd.oci.image.layer.v1.tar+gzip+encrypted");
  EXPECT_EQ(unknown.kind(), Kind::Unsupported);
  EXPECT_THAT(unknown.message(), HasSubstr("manifest.layers[0] is of the type"));
  EXPECT_THAT(with_layer("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip").message(),
              HasSubstr("foreign layer"));

  OciBuilder artifact = one("x");
  Json manifest = artifact.manifest();
  manifest["config"]["mediaType"] = "application/vnd.cncf.helm.config.v1+json";
  Json top = artifact.descriptor("application/vnd.oci.image.manifest.v1+json", manifest.dump());
  EXPECT_THAT(refused(artifact.save(at("artifact"), OciBuilder::index({top}))).message(),
              HasSubstr("this is no image"));
}

TEST_F(OciSources, DocumentsThatBreakABoundAreRefused) {
  OciBuilder image = one("x");
  for (int i = 0; i < 600; ++i) image.layers().push_back(image.layers()[0]);
  EXPECT_THAT(refused(image.save(at("layers"))).message(), HasSubstr("more than 512 entries"));
  sys::make_directories(at("big"));
  sys::write_file_atomic(at("big") + "/oci-layout", as_bytes(R"({"imageLayoutVersion":"1.0.0"})"));
  sys::write_file_atomic(at("big") + "/index.json", as_bytes(std::string(5 << 20, ' ')));
  EXPECT_EQ(refused(at("big")).kind(), Kind::Exhausted);
  sys::write_file_atomic(at("big") + "/index.json", as_bytes(std::string(1000, '[')));
  EXPECT_THAT(refused(at("big")).message(), HasSubstr("nested too deep"));
}

TEST_F(OciSources, FifoInABlobsPlaceIsNotWaitedFor) {
  OciBuilder image = one("x");
  image.save(at("layout"));
  const std::string path =
      at("layout") + "/blobs/sha256/" + image.layers()[0]["digest"].get<std::string>().substr(7);
  sys::remove_file(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(refused(at("layout")).message(), HasSubstr("no regular file"));
}

TEST_F(OciSources, DockerArchiveNamesAreCheckedAndLinksWithinItFollowed) {
  OciBuilder image = one("docker");
  auto files = docker(image, "app:v1");
  TarBuilder tar;
  for (const auto& [path, content] : files)
    if (path != "blobs/l0.tar") tar.file(path, content);
  tar.file("blobs/real", files.at("blobs/l0.tar")).symlink("blobs/l0.tar", "../blobs/real");
  EXPECT_EQ(file_in(import(tar.save(at("linked.tar")))), "docker");
  store::Images(paths_).remove("test", {});

  const std::string config = digest_of(image.config.dump()).substr(7) + ".json";
  files[config] += " ";
  EXPECT_THAT(refused(archive(files)).message(), HasSubstr("not what its name promises"));
  files = docker(image, "app:v1");
  files.erase("blobs/l0.tar");
  EXPECT_THAT(refused(archive(files)).message(), HasSubstr("is not in the archive"));
}

TEST_F(OciSources, CutArchiveIsRefused) {
  OciBuilder image = one("docker");
  const std::string path = archive(docker(image, "app:v1"));
  const std::string bytes = sys::read_text_file(path, 1 << 20);
  sys::write_file_atomic(path, as_bytes(bytes.substr(0, bytes.size() - 1200)));
  EXPECT_THAT(refused(path).message(), HasSubstr("cut off"));
}

TEST_F(OciSources, RootFileSystemsAreStillTakenAsSuch) {
  const Imported tar = import(TarBuilder()
                                  .directory("etc")
                                  .file("manifest.json", "[]")
                                  .file("etc/passwd", "root")
                                  .save(at("root.tar")));
  EXPECT_EQ(tar.image.manifest.source_kind, "tar");
  sys::make_directories(at("root/blobs"));
  EXPECT_EQ(import(at("root")).image.manifest.source_kind, "directory");
}

TEST_F(OciSources, ImportsOfOneImageAtTheSameTimeDoTheWorkOnce) {
  OciBuilder image;
  image.layer(TarBuilder().file("f", std::string(8 << 20, 'x')));
  image.save(at("layout"));
  std::atomic<int> worked{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&, i] {
      store::Images images(paths_);
      const auto imported =
          import_image(images, at("layout"), store::parse_image_name("name" + std::to_string(i)));
      worked += imported.existed ? 0 : 1;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(worked, 1);
  const auto all = store::Images(paths_).list();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].names.size(), 6U);
  EXPECT_EQ(sys::list_directory(paths_.images_dir()).size(), 1U);
}

TEST_F(OciSources, ProgressMayGiveUpAtAnyPointAndNothingIsLeft) {
  OciBuilder image;
  for (int i = 0; i < 3; ++i)
    image.layer(TarBuilder().file("f" + std::to_string(i), std::string(3 << 20, 'x')).bytes(),
                TarBuilder().file("f" + std::to_string(i), std::string(3 << 20, 'x')).bytes());
  image.save(at("layout"));
  bool finished = false;
  int stops = 0;
  for (; !finished; ++stops) {
    int left = stops;
    store::Images images(paths_);
    try {
      import_image(images, at("layout"), store::parse_image_name("n"), {},
                   [&](uint64_t, std::optional<uint64_t>, Phase) {
                     if (left-- == 0) throw Error(Kind::Unavailable, "given up");
                   });
      finished = true;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("given up"));
      if (store::Images(paths_).list().empty()) expect_nothing_left();
    }
  }
  EXPECT_GT(stops, 5);
}

}
}
