#!/usr/bin/env bash
# What made the files of this folder, on one host with four H100s: verifications, and a cold search.
# bash commands.sh LANES_RESULT VERDICTS BUNDLE ..., in the root of a checkout. Written down afterwards: the commands in
# it were run, this file was not. The compositions of the nine models beside the compiler were to be measured, too.
export TORCHINDUCTOR_COMPILE_THREADS=8
verified=(densenet201 unet_res_block mamba2 resnet18 bert_base s4d mobilenet_v2 efficientnet_b1 rnn_step lenet5
    resnet_block)
beside=(resnet50 segformer pegasus vae_decoder_block yolos_tiny hubert_base resnet18_any_image pointnet_any_cloud gcn)
bash benchmarks/lanes.sh 940 "$1" 8 'case $NAME in
    cold:*)
        CUDA_VISIBLE_DEVICES=${DEVICE#cuda:} python3 benchmarks/anytime.py "zoo/${NAME#cold:}" --run "runs/${NAME#cold:}" \
            --minutes 5 --precision half --device cuda --set engine.finalists=1 --set engine.baselines=[] \
            --set evaluate.max_timing_seconds=3 --set evaluate.threads=4 --out "$FILE" ;;
    beside:*)
        python3 benchmarks/zoo_beside.py "$FILE" benchmarks/trials/h200-x8-2026-11-27b/zoo_half_cold_more.tar.xz \
            "zoo/${NAME#beside:}" --device "$DEVICE" --ways compile compile:reduce-overhead compile:max-autotune cuda-graph ;;
    *) python3 benchmarks/gallery/verify.py "$FILE" "$NAME" --device "$DEVICE" ;;
    esac' "${verified[@]}" cold:opt_decode "${beside[@]/#/beside:}"
bash benchmarks/gallery/judge.sh 6 "$2" 20 "${@:3}"
