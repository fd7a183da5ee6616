# mvm itself. The agent in it has to be static, and so is all of it: call it with pkgsStatic.
{ stdenv, brotli, bzip2, cli11, cmake, fmt, libarchive, libnl, liburing, nghttp2, ninja, nlohmann_json, openssl, pkg-config, re2
, spdlog, sqlite, tomlplusplus, xz, zlib, zstd }:

stdenv.mkDerivation {
  pname = "mvm";
  version = "0.1.0";
  src = ./..;
  nativeBuildInputs = [ cmake ninja pkg-config ];
  buildInputs = [
    brotli bzip2 cli11 fmt libarchive libnl liburing nghttp2 nlohmann_json openssl re2 spdlog sqlite tomlplusplus xz zlib zstd
  ];
  # The program and its agent alone.
  cmakeFlags = [ "-DMVM_TESTS=OFF" ];
  ninjaFlags = [ "src/mvm" ];
  installPhase = ''
    install -D src/mvm $out/bin/mvm
  '';
}
