declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
define i32 @k(ptr %buffers, ptr %dims, i32 %worker, i32 %workers, ptr %scratch) nounwind uwtable(sync) {
entry:
 %t1 = load ptr, ptr %buffers, align 8
 %t2 = getelementptr ptr, ptr %buffers, i64 1
 %t3 = load ptr, ptr %t2, align 8
 %t4 = getelementptr ptr, ptr %buffers, i64 2
 %t5 = load ptr, ptr %t4, align 8
 %t6 = getelementptr ptr, ptr %buffers, i64 3
 %t7 = load ptr, ptr %t6, align 8
 %t8 = sext i32 %worker to i64
 %t9 = sext i32 %workers to i64
 %t10 = call i32 @k.body(ptr %t1, ptr %t3, ptr %t5, ptr %t7, i64 %t8, i64 %t9, ptr %scratch)
 ret i32 %t10
}
define internal i32 @k.body(ptr noundef noalias readonly %b0, ptr noundef noalias readonly %b1, ptr noundef readonly %b2, ptr noundef %b3, i64 %worker, i64 %workers, ptr noundef %scratch) nounwind noinline {
entry:
 %t1 = alloca [16 x i8], align 64
 %t4 = alloca i64
 %t5 = alloca i64
 %t6 = alloca i64
 %t7 = alloca i64
 %t8 = alloca i64
 %t9 = alloca i64
 %t12 = alloca i64
 %t13 = alloca i64
 %t14 = alloca i64
 %t15 = alloca i64
 %t2 = getelementptr i8, ptr %scratch, i64 128
 %t3 = getelementptr i8, ptr %scratch, i64 192
 store i64 0, ptr %t4
 store i64 3, ptr %t5
 store i64 0, ptr %t6
 store i64 3, ptr %t7
 store i64 0, ptr %t8
 store i64 1, ptr %t9
 %t10 = icmp sgt i64 %workers, 1
 br i1 %t10, label %if11.then, label %if11.end
if11.then:
 store i64 4611686018427387904, ptr %t12
 store i64 1, ptr %t13
 store i64 1, ptr %t14
 store i64 1, ptr %t15
 %t16 = call i64 @llvm.smin.i64(i64 %workers, i64 3)
 %t17 = add i64 %t16, 1
 %t19 = icmp slt i64 1, %t17
 br i1 %t19, label %for18.pre, label %for18.end
for18.pre:
 br label %for18
for18:
 %i18 = phi i64 [ 1, %for18.pre ], [ %i18.next, %for18.latch ]
 %t20 = udiv i64 %workers, %i18
 %t21 = call i64 @llvm.smin.i64(i64 %t20, i64 3)
 %t22 = add i64 %t21, 1
 %t24 = icmp slt i64 1, %t22
 br i1 %t24, label %for23.pre, label %for23.end
for23.pre:
 br label %for23
for23:
 %i23 = phi i64 [ 1, %for23.pre ], [ %i23.next, %for23.latch ]
 %t25 = udiv i64 %t20, %i23
 %t26 = call i64 @llvm.smin.i64(i64 %t25, i64 1)
 %t27 = call i64 @llvm.smax.i64(i64 %t26, i64 1)
 %t28 = sub i64 %i18, 1
 %t29 = add i64 3, %t28
 %t30 = udiv i64 %t29, %i18
 %t31 = sub i64 %i23, 1
 %t32 = add i64 3, %t31
 %t33 = udiv i64 %t32, %i23
 %t34 = sub i64 %t27, 1
 %t35 = add i64 1, %t34
 %t36 = udiv i64 %t35, %t27
 %t37 = mul i64 %t33, %t36
 %t38 = mul i64 %t37, 10
 %t39 = mul i64 %t33, 5
 %t40 = add i64 %t38, %t39
 %t41 = mul i64 %t36, 12
 %t42 = add i64 %t40, %t41
 %t43 = mul i64 %t30, %t42
 %t44 = load i64, ptr %t12
 %t45 = icmp slt i64 %t43, %t44
 br i1 %t45, label %if46.then, label %if46.end
if46.then:
 store i64 %t43, ptr %t12
 store i64 %i18, ptr %t13
 store i64 %i23, ptr %t14
 store i64 %t27, ptr %t15
 br label %if46.end
if46.end:
 br label %for23.latch
for23.latch:
 %i23.next = add nsw i64 %i23, 1
 %i23.more = icmp slt i64 %i23.next, %t22
 br i1 %i23.more, label %for23, label %for23.end, !llvm.loop !1
for23.end:
 br label %for18.latch
for18.latch:
 %i18.next = add nsw i64 %i18, 1
 %i18.more = icmp slt i64 %i18.next, %t17
 br i1 %i18.more, label %for18, label %for18.end, !llvm.loop !2
for18.end:
 %t47 = load i64, ptr %t13
 %t48 = load i64, ptr %t14
 %t49 = load i64, ptr %t15
 %t50 = mul i64 %t47, %t48
 %t51 = mul i64 %t50, %t49
 %t52 = icmp sge i64 %worker, %t51
 br i1 %t52, label %if53.then, label %if53.end
if53.then:
 ret i32 0
if53.end:
 %t54 = udiv i64 %worker, %t49
 %t55 = udiv i64 %t54, %t48
 %t56 = urem i64 %t54, %t48
 %t57 = urem i64 %worker, %t49
 %t58 = mul i64 3, %t55
 %t59 = udiv i64 %t58, %t47
 %t60 = add i64 %t55, 1
 %t61 = mul i64 3, %t60
 %t62 = udiv i64 %t61, %t47
 store i64 %t59, ptr %t4
 store i64 %t62, ptr %t5
 %t63 = mul i64 3, %t56
 %t64 = udiv i64 %t63, %t48
 %t65 = add i64 %t56, 1
 %t66 = mul i64 3, %t65
 %t67 = udiv i64 %t66, %t48
 store i64 %t64, ptr %t6
 store i64 %t67, ptr %t7
 %t68 = udiv i64 %t57, %t49
 %t69 = add i64 %t57, 1
 %t70 = udiv i64 %t69, %t49
 store i64 %t68, ptr %t8
 store i64 %t70, ptr %t9
 br label %if11.end
if11.end:
 %t71 = load i64, ptr %t4
 %t72 = load i64, ptr %t5
 %t73 = load i64, ptr %t6
 %t74 = load i64, ptr %t7
 %t75 = load i64, ptr %t8
 %t76 = load i64, ptr %t9
 %t78 = icmp slt i64 %t71, %t72
 br i1 %t78, label %for77.pre, label %for77.end
for77.pre:
 br label %for77
for77:
 %i77 = phi i64 [ %t71, %for77.pre ], [ %i77.next, %for77.latch ]
 %t79 = mul i64 %i77, 15
 %t80 = mul i64 %i77, 195
 %t81 = getelementptr bfloat, ptr %b1, i64 %t79
 %t82 = getelementptr bfloat, ptr %b3, i64 %t80
 store ptr %b2, ptr %t1, align 8
 %t83 = getelementptr i8, ptr %t1, i64 8
 store ptr %t82, ptr %t83, align 8
 %t85 = icmp slt i64 %t75, %t76
 br i1 %t85, label %for84.pre, label %for84.end
for84.pre:
 br label %for84
for84:
 %i84 = phi i64 [ %t75, %for84.pre ], [ %i84.next, %for84.latch ]
 %t86 = mul i64 %i84, 16
 %t87 = getelementptr bfloat, ptr %t81, i64 %t86
 %t88 = sub i64 %i84, %t75
 %t89 = mul i64 %t88, 16
 %t90 = getelementptr float, ptr %t2, i64 %t89
 %t91 = sub i64 15, %t86
 call void @pack_b(ptr %t1, ptr %t87, ptr %t90, i64 %t91, i64 1)
 br label %for84.latch
for84.latch:
 %i84.next = add nsw i64 %i84, 1
 %i84.more = icmp slt i64 %i84.next, %t76
 br i1 %i84.more, label %for84, label %for84.end, !llvm.loop !10
for84.end:
 %t93 = icmp slt i64 %t73, %t74
 br i1 %t93, label %for92.pre, label %for92.end
for92.pre:
 br label %for92
for92:
 %i92 = phi i64 [ %t73, %for92.pre ], [ %i92.next, %for92.latch ]
 %t94 = mul i64 %i92, 4
 %t95 = call i64 @llvm.smin.i64(i64 %i92, i64 1)
 %t96 = add i64 %t94, %t95
 %t97 = add i64 %i92, 1
 %t98 = mul i64 %t97, 4
 %t99 = call i64 @llvm.smin.i64(i64 %t97, i64 1)
 %t100 = add i64 %t98, %t99
 %t101 = call i64 @llvm.smin.i64(i64 %t100, i64 13)
 %t102 = sub i64 %t101, %t96
 %t103 = getelementptr bfloat, ptr %b0, i64 %t96
 %t104 = sub i64 %i92, %t73
 %t105 = mul i64 %t104, 8
 %t106 = getelementptr float, ptr %scratch, i64 %t105
 call void @pack_a(ptr %t1, ptr %t103, ptr %t106, i64 %t102, i64 1)
 br label %for92.latch
for92.latch:
 %i92.next = add nsw i64 %i92, 1
 %i92.more = icmp slt i64 %i92.next, %t74
 br i1 %i92.more, label %for92, label %for92.end, !llvm.loop !11
for92.end:
 %t107 = call i64 @llvm.smin.i64(i64 0, i64 %t76)
 %t109 = icmp slt i64 %t75, %t107
 br i1 %t109, label %for108.pre, label %for108.end
for108.pre:
 br label %for108
for108:
 %i108 = phi i64 [ %t75, %for108.pre ], [ %i108.next, %for108.latch ]
 %t110 = call i64 @llvm.smin.i64(i64 %t74, i64 1)
 %t112 = icmp slt i64 %t73, %t110
 br i1 %t112, label %for111.pre, label %for111.end
for111.pre:
 br label %for111
for111:
 %i111 = phi i64 [ %t73, %for111.pre ], [ %i111.next, %for111.latch ]
 %t113 = mul i64 %i111, 4
 %t114 = call i64 @llvm.smin.i64(i64 %i111, i64 1)
 %t115 = add i64 %t113, %t114
 %t116 = mul i64 %i108, 16
 %t117 = sub i64 %i111, %t73
 %t118 = sub i64 %i108, %t75
 %t119 = mul i64 %t117, 8
 %t120 = mul i64 %t118, 16
 %t121 = getelementptr float, ptr %scratch, i64 %t119
 %t122 = getelementptr float, ptr %t2, i64 %t120
 %t123 = sub i64 15, %t116
 call void @tile_5x1x2(ptr %t1, ptr %t121, ptr %t122, i64 %t115, i64 %t116, i64 %t123, i64 1, i1 1, ptr %t3, ptr %t122, i64 0)
 br label %for111.latch
for111.latch:
 %i111.next = add nsw i64 %i111, 1
 %i111.more = icmp slt i64 %i111.next, %t110
 br i1 %i111.more, label %for111, label %for111.end, !llvm.loop !12
for111.end:
 %t124 = call i64 @llvm.smax.i64(i64 %t73, i64 1)
 %t126 = icmp slt i64 %t124, %t74
 br i1 %t126, label %for125.pre, label %for125.end
for125.pre:
 br label %for125
for125:
 %i125 = phi i64 [ %t124, %for125.pre ], [ %i125.next, %for125.latch ]
 %t127 = mul i64 %i125, 4
 %t128 = call i64 @llvm.smin.i64(i64 %i125, i64 1)
 %t129 = add i64 %t127, %t128
 %t130 = mul i64 %i108, 16
 %t131 = sub i64 %i125, %t73
 %t132 = sub i64 %i108, %t75
 %t133 = mul i64 %t131, 8
 %t134 = mul i64 %t132, 16
 %t135 = getelementptr float, ptr %scratch, i64 %t133
 %t136 = getelementptr float, ptr %t2, i64 %t134
 %t137 = sub i64 15, %t130
 call void @tile_4x1x2(ptr %t1, ptr %t135, ptr %t136, i64 %t129, i64 %t130, i64 %t137, i64 1, i1 1, ptr %t3, ptr %t136, i64 0)
 br label %for125.latch
for125.latch:
 %i125.next = add nsw i64 %i125, 1
 %i125.more = icmp slt i64 %i125.next, %t74
 br i1 %i125.more, label %for125, label %for125.end, !llvm.loop !13
for125.end:
 br label %for108.latch
for108.latch:
 %i108.next = add nsw i64 %i108, 1
 %i108.more = icmp slt i64 %i108.next, %t107
 br i1 %i108.more, label %for108, label %for108.end, !llvm.loop !14
for108.end:
 %t138 = call i64 @llvm.smax.i64(i64 %t107, i64 %t75)
 %t140 = icmp slt i64 %t138, %t76
 br i1 %t140, label %for139.pre, label %for139.end
for139.pre:
 br label %for139
for139:
 %i139 = phi i64 [ %t138, %for139.pre ], [ %i139.next, %for139.latch ]
 %t141 = call i64 @llvm.smin.i64(i64 %t74, i64 1)
 %t143 = icmp slt i64 %t73, %t141
 br i1 %t143, label %for142.pre, label %for142.end
for142.pre:
 br label %for142
for142:
 %i142 = phi i64 [ %t73, %for142.pre ], [ %i142.next, %for142.latch ]
 %t144 = mul i64 %i142, 4
 %t145 = call i64 @llvm.smin.i64(i64 %i142, i64 1)
 %t146 = add i64 %t144, %t145
 %t147 = mul i64 %i139, 16
 %t148 = sub i64 %i142, %t73
 %t149 = sub i64 %i139, %t75
 %t150 = mul i64 %t148, 8
 %t151 = mul i64 %t149, 16
 %t152 = getelementptr float, ptr %scratch, i64 %t150
 %t153 = getelementptr float, ptr %t2, i64 %t151
 %t154 = sub i64 15, %t147
 call void @tile_edge_5x1x2(ptr %t1, ptr %t152, ptr %t153, i64 %t146, i64 %t147, i64 %t154, i64 1, i1 1, ptr %t3, ptr %t153, i64 0)
 br label %for142.latch
for142.latch:
 %i142.next = add nsw i64 %i142, 1
 %i142.more = icmp slt i64 %i142.next, %t141
 br i1 %i142.more, label %for142, label %for142.end, !llvm.loop !27
for142.end:
 %t155 = call i64 @llvm.smax.i64(i64 %t73, i64 1)
 %t157 = icmp slt i64 %t155, %t74
 br i1 %t157, label %for156.pre, label %for156.end
for156.pre:
 br label %for156
for156:
 %i156 = phi i64 [ %t155, %for156.pre ], [ %i156.next, %for156.latch ]
 %t158 = mul i64 %i156, 4
 %t159 = call i64 @llvm.smin.i64(i64 %i156, i64 1)
 %t160 = add i64 %t158, %t159
 %t161 = mul i64 %i139, 16
 %t162 = sub i64 %i156, %t73
 %t163 = sub i64 %i139, %t75
 %t164 = mul i64 %t162, 8
 %t165 = mul i64 %t163, 16
 %t166 = getelementptr float, ptr %scratch, i64 %t164
 %t167 = getelementptr float, ptr %t2, i64 %t165
 %t168 = sub i64 15, %t161
 call void @tile_edge_4x1x2(ptr %t1, ptr %t166, ptr %t167, i64 %t160, i64 %t161, i64 %t168, i64 1, i1 1, ptr %t3, ptr %t167, i64 0)
 br label %for156.latch
for156.latch:
 %i156.next = add nsw i64 %i156, 1
 %i156.more = icmp slt i64 %i156.next, %t74
 br i1 %i156.more, label %for156, label %for156.end, !llvm.loop !38
for156.end:
 br label %for139.latch
for139.latch:
 %i139.next = add nsw i64 %i139, 1
 %i139.more = icmp slt i64 %i139.next, %t76
 br i1 %i139.more, label %for139, label %for139.end, !llvm.loop !39
for139.end:
 br label %for77.latch
for77.latch:
 %i77.next = add nsw i64 %i77, 1
 %i77.more = icmp slt i64 %i77.next, %t72
 br i1 %i77.more, label %for77, label %for77.end, !llvm.loop !40
for77.end:
 ret i32 zeroinitializer
}
define internal void @pack_a(ptr noalias %frame, ptr noalias readonly %source, ptr noalias %to, i64 %rows, i64 %k) nounwind noinline {
entry:
 %t12 = alloca [16 x i8], align 64
 %t1 = call i64 @llvm.smin.i64(i64 %rows, i64 8)
 %t2 = call i64 @llvm.smin.i64(i64 %t1, i64 8)
 %t3 = call i64 @llvm.smax.i64(i64 %t2, i64 0)
 %t4 = trunc i64 %t3 to i32
 %t5 = insertelement <8 x i32> poison, i32 %t4, i32 0
 %t6 = shufflevector <8 x i32> %t5, <8 x i32> poison, <8 x i32> zeroinitializer
 %t7 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t6
 %t9 = icmp slt i64 0, %k
 br i1 %t9, label %for8.pre, label %for8.end
for8.pre:
 br label %for8
for8:
 %i8 = phi i64 [ 0, %for8.pre ], [ %i8.next, %for8.latch ]
 %t10 = mul i64 %i8, 2
 %t11 = getelementptr bfloat, ptr %source, i64 %t10
 store <8 x i16> zeroinitializer, ptr %t12, align 2
 %t14 = icmp slt i64 0, %t1
 br i1 %t14, label %for13.pre, label %for13.end
for13.pre:
 br label %for13
for13:
 %i13 = phi i64 [ 0, %for13.pre ], [ %i13.next, %for13.latch ]
 %t15 = getelementptr i16, ptr %t11, i64 %i13
 %t16 = load i16, ptr %t15, align 2
 %t17 = getelementptr i16, ptr %t12, i64 %i13
 store i16 %t16, ptr %t17, align 2
 br label %for13.latch
for13.latch:
 %i13.next = add nsw i64 %i13, 1
 %i13.more = icmp slt i64 %i13.next, %t1
 br i1 %i13.more, label %for13, label %for13.end, !llvm.loop !3
for13.end:
 %t18 = load <8 x i16>, ptr %t12, align 2
 %t19 = bitcast <8 x i16> %t18 to <8 x bfloat>
 %t20 = mul i64 %i8, 8
 %t21 = getelementptr float, ptr %to, i64 %t20
 %t22 = bitcast <8 x bfloat> %t19 to <8 x i16>
 %t23 = zext <8 x i16> %t22 to <8 x i32>
 %t24 = shl <8 x i32> %t23, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t25 = bitcast <8 x i32> %t24 to <8 x float>
 store <8 x float> %t25, ptr %t21, align 32
 br label %for8.latch
for8.latch:
 %i8.next = add nsw i64 %i8, 1
 %i8.more = icmp slt i64 %i8.next, %k
 br i1 %i8.more, label %for8, label %for8.end, !llvm.loop !5
for8.end:
 ret void
}
define internal void @pack_b(ptr noalias %frame, ptr noalias readonly %source, ptr noalias %to, i64 %cols, i64 %k) nounwind noinline {
entry:
 %t35 = alloca [16 x i8], align 64
 %t59 = alloca [16 x i8], align 64
 %t1 = icmp sge i64 %cols, 16
 br i1 %t1, label %if2.then, label %if2.else
if2.then:
 %t4 = icmp slt i64 0, %k
 br i1 %t4, label %for3.pre, label %for3.end
for3.pre:
 br label %for3
for3:
 %i3 = phi i64 [ 0, %for3.pre ], [ %i3.next, %for3.latch ]
 %t5 = getelementptr bfloat, ptr %source, i64 %i3
 %t6 = load <8 x i16>, ptr %t5, align 2
 %t7 = bitcast <8 x i16> %t6 to <8 x bfloat>
 %t8 = mul i64 %i3, 16
 %t9 = getelementptr float, ptr %to, i64 %t8
 %t10 = bitcast <8 x bfloat> %t7 to <8 x i16>
 %t11 = zext <8 x i16> %t10 to <8 x i32>
 %t12 = shl <8 x i32> %t11, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t13 = bitcast <8 x i32> %t12 to <8 x float>
 store <8 x float> %t13, ptr %t9, align 32
 %t14 = add i64 %i3, 8
 %t15 = getelementptr bfloat, ptr %source, i64 %t14
 %t16 = load <8 x i16>, ptr %t15, align 2
 %t17 = bitcast <8 x i16> %t16 to <8 x bfloat>
 %t18 = mul i64 %i3, 16
 %t19 = add i64 %t18, 8
 %t20 = getelementptr float, ptr %to, i64 %t19
 %t21 = bitcast <8 x bfloat> %t17 to <8 x i16>
 %t22 = zext <8 x i16> %t21 to <8 x i32>
 %t23 = shl <8 x i32> %t22, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t24 = bitcast <8 x i32> %t23 to <8 x float>
 store <8 x float> %t24, ptr %t20, align 32
 br label %for3.latch
for3.latch:
 %i3.next = add nsw i64 %i3, 1
 %i3.more = icmp slt i64 %i3.next, %k
 br i1 %i3.more, label %for3, label %for3.end, !llvm.loop !6
for3.end:
 br label %if2.end
if2.else:
 %t26 = icmp slt i64 0, %k
 br i1 %t26, label %for25.pre, label %for25.end
for25.pre:
 br label %for25
for25:
 %i25 = phi i64 [ 0, %for25.pre ], [ %i25.next, %for25.latch ]
 %t27 = call i64 @llvm.smin.i64(i64 %cols, i64 8)
 %t28 = call i64 @llvm.smin.i64(i64 %t27, i64 8)
 %t29 = call i64 @llvm.smax.i64(i64 %t28, i64 0)
 %t30 = trunc i64 %t29 to i32
 %t31 = insertelement <8 x i32> poison, i32 %t30, i32 0
 %t32 = shufflevector <8 x i32> %t31, <8 x i32> poison, <8 x i32> zeroinitializer
 %t33 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t32
 %t34 = getelementptr bfloat, ptr %source, i64 %i25
 store <8 x i16> zeroinitializer, ptr %t35, align 2
 %t37 = icmp slt i64 0, %t27
 br i1 %t37, label %for36.pre, label %for36.end
for36.pre:
 br label %for36
for36:
 %i36 = phi i64 [ 0, %for36.pre ], [ %i36.next, %for36.latch ]
 %t38 = getelementptr i16, ptr %t34, i64 %i36
 %t39 = load i16, ptr %t38, align 2
 %t40 = getelementptr i16, ptr %t35, i64 %i36
 store i16 %t39, ptr %t40, align 2
 br label %for36.latch
for36.latch:
 %i36.next = add nsw i64 %i36, 1
 %i36.more = icmp slt i64 %i36.next, %t27
 br i1 %i36.more, label %for36, label %for36.end, !llvm.loop !7
for36.end:
 %t41 = load <8 x i16>, ptr %t35, align 2
 %t42 = bitcast <8 x i16> %t41 to <8 x bfloat>
 %t43 = mul i64 %i25, 16
 %t44 = getelementptr float, ptr %to, i64 %t43
 %t45 = bitcast <8 x bfloat> %t42 to <8 x i16>
 %t46 = zext <8 x i16> %t45 to <8 x i32>
 %t47 = shl <8 x i32> %t46, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t48 = bitcast <8 x i32> %t47 to <8 x float>
 store <8 x float> %t48, ptr %t44, align 32
 %t49 = sub i64 %cols, 8
 %t50 = call i64 @llvm.smin.i64(i64 %t49, i64 8)
 %t51 = call i64 @llvm.smin.i64(i64 %t50, i64 8)
 %t52 = call i64 @llvm.smax.i64(i64 %t51, i64 0)
 %t53 = trunc i64 %t52 to i32
 %t54 = insertelement <8 x i32> poison, i32 %t53, i32 0
 %t55 = shufflevector <8 x i32> %t54, <8 x i32> poison, <8 x i32> zeroinitializer
 %t56 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t55
 %t57 = add i64 %i25, 8
 %t58 = getelementptr bfloat, ptr %source, i64 %t57
 store <8 x i16> zeroinitializer, ptr %t59, align 2
 %t61 = icmp slt i64 0, %t50
 br i1 %t61, label %for60.pre, label %for60.end
for60.pre:
 br label %for60
for60:
 %i60 = phi i64 [ 0, %for60.pre ], [ %i60.next, %for60.latch ]
 %t62 = getelementptr i16, ptr %t58, i64 %i60
 %t63 = load i16, ptr %t62, align 2
 %t64 = getelementptr i16, ptr %t59, i64 %i60
 store i16 %t63, ptr %t64, align 2
 br label %for60.latch
for60.latch:
 %i60.next = add nsw i64 %i60, 1
 %i60.more = icmp slt i64 %i60.next, %t50
 br i1 %i60.more, label %for60, label %for60.end, !llvm.loop !8
for60.end:
 %t65 = load <8 x i16>, ptr %t59, align 2
 %t66 = bitcast <8 x i16> %t65 to <8 x bfloat>
 %t67 = mul i64 %i25, 16
 %t68 = add i64 %t67, 8
 %t69 = getelementptr float, ptr %to, i64 %t68
 %t70 = bitcast <8 x bfloat> %t66 to <8 x i16>
 %t71 = zext <8 x i16> %t70 to <8 x i32>
 %t72 = shl <8 x i32> %t71, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t73 = bitcast <8 x i32> %t72 to <8 x float>
 store <8 x float> %t73, ptr %t69, align 32
 br label %for25.latch
for25.latch:
 %i25.next = add nsw i64 %i25, 1
 %i25.more = icmp slt i64 %i25.next, %k
 br i1 %i25.more, label %for25, label %for25.end, !llvm.loop !9
for25.end:
 br label %if2.end
if2.end:
 ret void
}
define internal void @tile_5x1x2(ptr noalias %frame, ptr noalias readonly %a, ptr noalias readonly %b, i64 %m, i64 %n, i64 %cols, i64 %k, i1 %first, ptr noalias %buffer, ptr %soon, i64 %pace) nounwind noinline {
entry:
 %t1 = alloca <8 x float>
 %t2 = alloca <8 x float>
 %t3 = alloca <8 x float>
 %t4 = alloca <8 x float>
 %t5 = alloca <8 x float>
 %t6 = alloca <8 x float>
 %t7 = alloca <8 x float>
 %t8 = alloca <8 x float>
 %t9 = alloca <8 x float>
 %t10 = alloca <8 x float>
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t1
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t2
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t3
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t4
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t5
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t6
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t7
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t8
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t9
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t10
 %t11 = getelementptr float, ptr %buffer, i64 8
 %t12 = getelementptr float, ptr %buffer, i64 16
 %t13 = getelementptr float, ptr %buffer, i64 24
 %t14 = getelementptr float, ptr %buffer, i64 32
 %t15 = getelementptr float, ptr %buffer, i64 40
 %t16 = getelementptr float, ptr %buffer, i64 48
 %t17 = getelementptr float, ptr %buffer, i64 56
 %t18 = getelementptr float, ptr %buffer, i64 64
 %t19 = getelementptr float, ptr %buffer, i64 72
 %t150 = load <8 x float>, ptr %b, align 4
 %t151 = getelementptr float, ptr %b, i64 8
 %t152 = load <8 x float>, ptr %t151, align 4
 %t153 = load float, ptr %a, align 4
 %t154 = insertelement <8 x float> poison, float %t153, i32 0
 %t155 = shufflevector <8 x float> %t154, <8 x float> poison, <8 x i32> zeroinitializer
 %t156 = load <8 x float>, ptr %t1
 %t157 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t155, <8 x float> %t150, <8 x float> %t156)
 store <8 x float> %t157, ptr %t1
 %t158 = load <8 x float>, ptr %t2
 %t159 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t155, <8 x float> %t152, <8 x float> %t158)
 store <8 x float> %t159, ptr %t2
 %t160 = getelementptr float, ptr %a, i64 1
 %t161 = load float, ptr %t160, align 4
 %t162 = insertelement <8 x float> poison, float %t161, i32 0
 %t163 = shufflevector <8 x float> %t162, <8 x float> poison, <8 x i32> zeroinitializer
 %t164 = load <8 x float>, ptr %t3
 %t165 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t163, <8 x float> %t150, <8 x float> %t164)
 store <8 x float> %t165, ptr %t3
 %t166 = load <8 x float>, ptr %t4
 %t167 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t163, <8 x float> %t152, <8 x float> %t166)
 store <8 x float> %t167, ptr %t4
 %t168 = getelementptr float, ptr %a, i64 2
 %t169 = load float, ptr %t168, align 4
 %t170 = insertelement <8 x float> poison, float %t169, i32 0
 %t171 = shufflevector <8 x float> %t170, <8 x float> poison, <8 x i32> zeroinitializer
 %t172 = load <8 x float>, ptr %t5
 %t173 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t171, <8 x float> %t150, <8 x float> %t172)
 store <8 x float> %t173, ptr %t5
 %t174 = load <8 x float>, ptr %t6
 %t175 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t171, <8 x float> %t152, <8 x float> %t174)
 store <8 x float> %t175, ptr %t6
 %t176 = getelementptr float, ptr %a, i64 3
 %t177 = load float, ptr %t176, align 4
 %t178 = insertelement <8 x float> poison, float %t177, i32 0
 %t179 = shufflevector <8 x float> %t178, <8 x float> poison, <8 x i32> zeroinitializer
 %t180 = load <8 x float>, ptr %t7
 %t181 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t179, <8 x float> %t150, <8 x float> %t180)
 store <8 x float> %t181, ptr %t7
 %t182 = load <8 x float>, ptr %t8
 %t183 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t179, <8 x float> %t152, <8 x float> %t182)
 store <8 x float> %t183, ptr %t8
 %t184 = getelementptr float, ptr %a, i64 4
 %t185 = load float, ptr %t184, align 4
 %t186 = insertelement <8 x float> poison, float %t185, i32 0
 %t187 = shufflevector <8 x float> %t186, <8 x float> poison, <8 x i32> zeroinitializer
 %t188 = load <8 x float>, ptr %t9
 %t189 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t187, <8 x float> %t150, <8 x float> %t188)
 store <8 x float> %t189, ptr %t9
 %t190 = load <8 x float>, ptr %t10
 %t191 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t187, <8 x float> %t152, <8 x float> %t190)
 store <8 x float> %t191, ptr %t10
 %t192 = load <8 x float>, ptr %t1
 %t193 = load <8 x float>, ptr %t2
 %t194 = load <8 x float>, ptr %t3
 %t195 = load <8 x float>, ptr %t4
 %t196 = load <8 x float>, ptr %t5
 %t197 = load <8 x float>, ptr %t6
 %t198 = load <8 x float>, ptr %t7
 %t199 = load <8 x float>, ptr %t8
 %t200 = load <8 x float>, ptr %t9
 %t201 = load <8 x float>, ptr %t10
 %t202 = load ptr, ptr %frame, align 8
 %t203 = getelementptr i8, ptr %frame, i64 8
 %t204 = load ptr, ptr %t203, align 8
 %t205 = add i64 %n, 8
 %t206 = getelementptr bfloat, ptr %t202, i64 %n
 %t207 = load <8 x i16>, ptr %t206, align 2
 %t208 = bitcast <8 x i16> %t207 to <8 x bfloat>
 %t209 = getelementptr bfloat, ptr %t202, i64 %t205
 %t210 = load <8 x i16>, ptr %t209, align 2
 %t211 = bitcast <8 x i16> %t210 to <8 x bfloat>
 %t212 = bitcast <8 x bfloat> %t208 to <8 x i16>
 %t213 = zext <8 x i16> %t212 to <8 x i32>
 %t214 = shl <8 x i32> %t213, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t215 = bitcast <8 x i32> %t214 to <8 x float>
 %t216 = fadd <8 x float> %t192, %t215
 %t217 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t216
 %t218 = select <8 x i1> %t217, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t216
 %t219 = bitcast <8 x float> %t218 to <8 x i32>
 %t220 = lshr <8 x i32> %t219, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t221 = and <8 x i32> %t220, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t222 = add <8 x i32> %t221, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t223 = add <8 x i32> %t219, %t222
 %t224 = lshr <8 x i32> %t223, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t225 = lshr <8 x i32> %t219, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t226 = or <8 x i32> %t225, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t227 = and <8 x i32> %t219, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t228 = icmp ugt <8 x i32> %t227, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t229 = select <8 x i1> %t228, <8 x i32> %t226, <8 x i32> %t224
 %t230 = trunc <8 x i32> %t229 to <8 x i16>
 %t231 = bitcast <8 x i16> %t230 to <8 x bfloat>
 %t232 = mul i64 %m, 15
 %t233 = add i64 %t232, %n
 %t234 = getelementptr bfloat, ptr %t204, i64 %t233
 store <8 x bfloat> %t231, ptr %t234, align 2
 %t235 = bitcast <8 x bfloat> %t211 to <8 x i16>
 %t236 = zext <8 x i16> %t235 to <8 x i32>
 %t237 = shl <8 x i32> %t236, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t238 = bitcast <8 x i32> %t237 to <8 x float>
 %t239 = fadd <8 x float> %t193, %t238
 %t240 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t239
 %t241 = select <8 x i1> %t240, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t239
 %t242 = bitcast <8 x float> %t241 to <8 x i32>
 %t243 = lshr <8 x i32> %t242, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t244 = and <8 x i32> %t243, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t245 = add <8 x i32> %t244, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t246 = add <8 x i32> %t242, %t245
 %t247 = lshr <8 x i32> %t246, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t248 = lshr <8 x i32> %t242, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t249 = or <8 x i32> %t248, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t250 = and <8 x i32> %t242, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t251 = icmp ugt <8 x i32> %t250, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t252 = select <8 x i1> %t251, <8 x i32> %t249, <8 x i32> %t247
 %t253 = trunc <8 x i32> %t252 to <8 x i16>
 %t254 = bitcast <8 x i16> %t253 to <8 x bfloat>
 %t255 = mul i64 %m, 15
 %t256 = add i64 %t255, %t205
 %t257 = getelementptr bfloat, ptr %t204, i64 %t256
 store <8 x bfloat> %t254, ptr %t257, align 2
 %t258 = add i64 %m, 1
 %t259 = bitcast <8 x bfloat> %t208 to <8 x i16>
 %t260 = zext <8 x i16> %t259 to <8 x i32>
 %t261 = shl <8 x i32> %t260, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t262 = bitcast <8 x i32> %t261 to <8 x float>
 %t263 = fadd <8 x float> %t194, %t262
 %t264 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t263
 %t265 = select <8 x i1> %t264, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t263
 %t266 = bitcast <8 x float> %t265 to <8 x i32>
 %t267 = lshr <8 x i32> %t266, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t268 = and <8 x i32> %t267, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t269 = add <8 x i32> %t268, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t270 = add <8 x i32> %t266, %t269
 %t271 = lshr <8 x i32> %t270, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t272 = lshr <8 x i32> %t266, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t273 = or <8 x i32> %t272, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t274 = and <8 x i32> %t266, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t275 = icmp ugt <8 x i32> %t274, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t276 = select <8 x i1> %t275, <8 x i32> %t273, <8 x i32> %t271
 %t277 = trunc <8 x i32> %t276 to <8 x i16>
 %t278 = bitcast <8 x i16> %t277 to <8 x bfloat>
 %t279 = mul i64 %t258, 15
 %t280 = add i64 %t279, %n
 %t281 = getelementptr bfloat, ptr %t204, i64 %t280
 store <8 x bfloat> %t278, ptr %t281, align 2
 %t282 = bitcast <8 x bfloat> %t211 to <8 x i16>
 %t283 = zext <8 x i16> %t282 to <8 x i32>
 %t284 = shl <8 x i32> %t283, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t285 = bitcast <8 x i32> %t284 to <8 x float>
 %t286 = fadd <8 x float> %t195, %t285
 %t287 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t286
 %t288 = select <8 x i1> %t287, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t286
 %t289 = bitcast <8 x float> %t288 to <8 x i32>
 %t290 = lshr <8 x i32> %t289, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t291 = and <8 x i32> %t290, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t292 = add <8 x i32> %t291, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t293 = add <8 x i32> %t289, %t292
 %t294 = lshr <8 x i32> %t293, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t295 = lshr <8 x i32> %t289, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t296 = or <8 x i32> %t295, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t297 = and <8 x i32> %t289, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t298 = icmp ugt <8 x i32> %t297, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t299 = select <8 x i1> %t298, <8 x i32> %t296, <8 x i32> %t294
 %t300 = trunc <8 x i32> %t299 to <8 x i16>
 %t301 = bitcast <8 x i16> %t300 to <8 x bfloat>
 %t302 = mul i64 %t258, 15
 %t303 = add i64 %t302, %t205
 %t304 = getelementptr bfloat, ptr %t204, i64 %t303
 store <8 x bfloat> %t301, ptr %t304, align 2
 %t305 = add i64 %m, 2
 %t306 = bitcast <8 x bfloat> %t208 to <8 x i16>
 %t307 = zext <8 x i16> %t306 to <8 x i32>
 %t308 = shl <8 x i32> %t307, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t309 = bitcast <8 x i32> %t308 to <8 x float>
 %t310 = fadd <8 x float> %t196, %t309
 %t311 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t310
 %t312 = select <8 x i1> %t311, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t310
 %t313 = bitcast <8 x float> %t312 to <8 x i32>
 %t314 = lshr <8 x i32> %t313, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t315 = and <8 x i32> %t314, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t316 = add <8 x i32> %t315, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t317 = add <8 x i32> %t313, %t316
 %t318 = lshr <8 x i32> %t317, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t319 = lshr <8 x i32> %t313, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t320 = or <8 x i32> %t319, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t321 = and <8 x i32> %t313, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t322 = icmp ugt <8 x i32> %t321, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t323 = select <8 x i1> %t322, <8 x i32> %t320, <8 x i32> %t318
 %t324 = trunc <8 x i32> %t323 to <8 x i16>
 %t325 = bitcast <8 x i16> %t324 to <8 x bfloat>
 %t326 = mul i64 %t305, 15
 %t327 = add i64 %t326, %n
 %t328 = getelementptr bfloat, ptr %t204, i64 %t327
 store <8 x bfloat> %t325, ptr %t328, align 2
 %t329 = bitcast <8 x bfloat> %t211 to <8 x i16>
 %t330 = zext <8 x i16> %t329 to <8 x i32>
 %t331 = shl <8 x i32> %t330, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t332 = bitcast <8 x i32> %t331 to <8 x float>
 %t333 = fadd <8 x float> %t197, %t332
 %t334 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t333
 %t335 = select <8 x i1> %t334, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t333
 %t336 = bitcast <8 x float> %t335 to <8 x i32>
 %t337 = lshr <8 x i32> %t336, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t338 = and <8 x i32> %t337, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t339 = add <8 x i32> %t338, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t340 = add <8 x i32> %t336, %t339
 %t341 = lshr <8 x i32> %t340, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t342 = lshr <8 x i32> %t336, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t343 = or <8 x i32> %t342, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t344 = and <8 x i32> %t336, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t345 = icmp ugt <8 x i32> %t344, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t346 = select <8 x i1> %t345, <8 x i32> %t343, <8 x i32> %t341
 %t347 = trunc <8 x i32> %t346 to <8 x i16>
 %t348 = bitcast <8 x i16> %t347 to <8 x bfloat>
 %t349 = mul i64 %t305, 15
 %t350 = add i64 %t349, %t205
 %t351 = getelementptr bfloat, ptr %t204, i64 %t350
 store <8 x bfloat> %t348, ptr %t351, align 2
 %t352 = add i64 %m, 3
 %t353 = bitcast <8 x bfloat> %t208 to <8 x i16>
 %t354 = zext <8 x i16> %t353 to <8 x i32>
 %t355 = shl <8 x i32> %t354, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t356 = bitcast <8 x i32> %t355 to <8 x float>
 %t357 = fadd <8 x float> %t198, %t356
 %t358 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t357
 %t359 = select <8 x i1> %t358, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t357
 %t360 = bitcast <8 x float> %t359 to <8 x i32>
 %t361 = lshr <8 x i32> %t360, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t362 = and <8 x i32> %t361, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t363 = add <8 x i32> %t362, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t364 = add <8 x i32> %t360, %t363
 %t365 = lshr <8 x i32> %t364, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t366 = lshr <8 x i32> %t360, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t367 = or <8 x i32> %t366, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t368 = and <8 x i32> %t360, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t369 = icmp ugt <8 x i32> %t368, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t370 = select <8 x i1> %t369, <8 x i32> %t367, <8 x i32> %t365
 %t371 = trunc <8 x i32> %t370 to <8 x i16>
 %t372 = bitcast <8 x i16> %t371 to <8 x bfloat>
 %t373 = mul i64 %t352, 15
 %t374 = add i64 %t373, %n
 %t375 = getelementptr bfloat, ptr %t204, i64 %t374
 store <8 x bfloat> %t372, ptr %t375, align 2
 %t376 = bitcast <8 x bfloat> %t211 to <8 x i16>
 %t377 = zext <8 x i16> %t376 to <8 x i32>
 %t378 = shl <8 x i32> %t377, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t379 = bitcast <8 x i32> %t378 to <8 x float>
 %t380 = fadd <8 x float> %t199, %t379
 %t381 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t380
 %t382 = select <8 x i1> %t381, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t380
 %t383 = bitcast <8 x float> %t382 to <8 x i32>
 %t384 = lshr <8 x i32> %t383, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t385 = and <8 x i32> %t384, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t386 = add <8 x i32> %t385, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t387 = add <8 x i32> %t383, %t386
 %t388 = lshr <8 x i32> %t387, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t389 = lshr <8 x i32> %t383, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t390 = or <8 x i32> %t389, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t391 = and <8 x i32> %t383, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t392 = icmp ugt <8 x i32> %t391, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t393 = select <8 x i1> %t392, <8 x i32> %t390, <8 x i32> %t388
 %t394 = trunc <8 x i32> %t393 to <8 x i16>
 %t395 = bitcast <8 x i16> %t394 to <8 x bfloat>
 %t396 = mul i64 %t352, 15
 %t397 = add i64 %t396, %t205
 %t398 = getelementptr bfloat, ptr %t204, i64 %t397
 store <8 x bfloat> %t395, ptr %t398, align 2
 %t399 = add i64 %m, 4
 %t400 = bitcast <8 x bfloat> %t208 to <8 x i16>
 %t401 = zext <8 x i16> %t400 to <8 x i32>
 %t402 = shl <8 x i32> %t401, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t403 = bitcast <8 x i32> %t402 to <8 x float>
 %t404 = fadd <8 x float> %t200, %t403
 %t405 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t404
 %t406 = select <8 x i1> %t405, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t404
 %t407 = bitcast <8 x float> %t406 to <8 x i32>
 %t408 = lshr <8 x i32> %t407, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t409 = and <8 x i32> %t408, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t410 = add <8 x i32> %t409, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t411 = add <8 x i32> %t407, %t410
 %t412 = lshr <8 x i32> %t411, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t413 = lshr <8 x i32> %t407, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t414 = or <8 x i32> %t413, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t415 = and <8 x i32> %t407, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t416 = icmp ugt <8 x i32> %t415, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t417 = select <8 x i1> %t416, <8 x i32> %t414, <8 x i32> %t412
 %t418 = trunc <8 x i32> %t417 to <8 x i16>
 %t419 = bitcast <8 x i16> %t418 to <8 x bfloat>
 %t420 = mul i64 %t399, 15
 %t421 = add i64 %t420, %n
 %t422 = getelementptr bfloat, ptr %t204, i64 %t421
 store <8 x bfloat> %t419, ptr %t422, align 2
 %t423 = bitcast <8 x bfloat> %t211 to <8 x i16>
 %t424 = zext <8 x i16> %t423 to <8 x i32>
 %t425 = shl <8 x i32> %t424, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t426 = bitcast <8 x i32> %t425 to <8 x float>
 %t427 = fadd <8 x float> %t201, %t426
 %t428 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t427
 %t429 = select <8 x i1> %t428, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t427
 %t430 = bitcast <8 x float> %t429 to <8 x i32>
 %t431 = lshr <8 x i32> %t430, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t432 = and <8 x i32> %t431, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t433 = add <8 x i32> %t432, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t434 = add <8 x i32> %t430, %t433
 %t435 = lshr <8 x i32> %t434, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t436 = lshr <8 x i32> %t430, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t437 = or <8 x i32> %t436, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t438 = and <8 x i32> %t430, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t439 = icmp ugt <8 x i32> %t438, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t440 = select <8 x i1> %t439, <8 x i32> %t437, <8 x i32> %t435
 %t441 = trunc <8 x i32> %t440 to <8 x i16>
 %t442 = bitcast <8 x i16> %t441 to <8 x bfloat>
 %t443 = mul i64 %t399, 15
 %t444 = add i64 %t443, %t205
 %t445 = getelementptr bfloat, ptr %t204, i64 %t444
 store <8 x bfloat> %t442, ptr %t445, align 2
 ret void
}
define internal void @tile_4x1x2(ptr noalias %frame, ptr noalias readonly %a, ptr noalias readonly %b, i64 %m, i64 %n, i64 %cols, i64 %k, i1 %first, ptr noalias %buffer, ptr %soon, i64 %pace) nounwind noinline {
entry:
 %t1 = alloca <8 x float>
 %t2 = alloca <8 x float>
 %t3 = alloca <8 x float>
 %t4 = alloca <8 x float>
 %t5 = alloca <8 x float>
 %t6 = alloca <8 x float>
 %t7 = alloca <8 x float>
 %t8 = alloca <8 x float>
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t1
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t2
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t3
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t4
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t5
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t6
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t7
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t8
 %t9 = getelementptr float, ptr %buffer, i64 8
 %t10 = getelementptr float, ptr %buffer, i64 16
 %t11 = getelementptr float, ptr %buffer, i64 24
 %t12 = getelementptr float, ptr %buffer, i64 32
 %t13 = getelementptr float, ptr %buffer, i64 40
 %t14 = getelementptr float, ptr %buffer, i64 48
 %t15 = getelementptr float, ptr %buffer, i64 56
 %t122 = load <8 x float>, ptr %b, align 4
 %t123 = getelementptr float, ptr %b, i64 8
 %t124 = load <8 x float>, ptr %t123, align 4
 %t125 = load float, ptr %a, align 4
 %t126 = insertelement <8 x float> poison, float %t125, i32 0
 %t127 = shufflevector <8 x float> %t126, <8 x float> poison, <8 x i32> zeroinitializer
 %t128 = load <8 x float>, ptr %t1
 %t129 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t127, <8 x float> %t122, <8 x float> %t128)
 store <8 x float> %t129, ptr %t1
 %t130 = load <8 x float>, ptr %t2
 %t131 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t127, <8 x float> %t124, <8 x float> %t130)
 store <8 x float> %t131, ptr %t2
 %t132 = getelementptr float, ptr %a, i64 1
 %t133 = load float, ptr %t132, align 4
 %t134 = insertelement <8 x float> poison, float %t133, i32 0
 %t135 = shufflevector <8 x float> %t134, <8 x float> poison, <8 x i32> zeroinitializer
 %t136 = load <8 x float>, ptr %t3
 %t137 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t135, <8 x float> %t122, <8 x float> %t136)
 store <8 x float> %t137, ptr %t3
 %t138 = load <8 x float>, ptr %t4
 %t139 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t135, <8 x float> %t124, <8 x float> %t138)
 store <8 x float> %t139, ptr %t4
 %t140 = getelementptr float, ptr %a, i64 2
 %t141 = load float, ptr %t140, align 4
 %t142 = insertelement <8 x float> poison, float %t141, i32 0
 %t143 = shufflevector <8 x float> %t142, <8 x float> poison, <8 x i32> zeroinitializer
 %t144 = load <8 x float>, ptr %t5
 %t145 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t143, <8 x float> %t122, <8 x float> %t144)
 store <8 x float> %t145, ptr %t5
 %t146 = load <8 x float>, ptr %t6
 %t147 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t143, <8 x float> %t124, <8 x float> %t146)
 store <8 x float> %t147, ptr %t6
 %t148 = getelementptr float, ptr %a, i64 3
 %t149 = load float, ptr %t148, align 4
 %t150 = insertelement <8 x float> poison, float %t149, i32 0
 %t151 = shufflevector <8 x float> %t150, <8 x float> poison, <8 x i32> zeroinitializer
 %t152 = load <8 x float>, ptr %t7
 %t153 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t151, <8 x float> %t122, <8 x float> %t152)
 store <8 x float> %t153, ptr %t7
 %t154 = load <8 x float>, ptr %t8
 %t155 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t151, <8 x float> %t124, <8 x float> %t154)
 store <8 x float> %t155, ptr %t8
 %t156 = load <8 x float>, ptr %t1
 %t157 = load <8 x float>, ptr %t2
 %t158 = load <8 x float>, ptr %t3
 %t159 = load <8 x float>, ptr %t4
 %t160 = load <8 x float>, ptr %t5
 %t161 = load <8 x float>, ptr %t6
 %t162 = load <8 x float>, ptr %t7
 %t163 = load <8 x float>, ptr %t8
 %t164 = load ptr, ptr %frame, align 8
 %t165 = getelementptr i8, ptr %frame, i64 8
 %t166 = load ptr, ptr %t165, align 8
 %t167 = add i64 %n, 8
 %t168 = getelementptr bfloat, ptr %t164, i64 %n
 %t169 = load <8 x i16>, ptr %t168, align 2
 %t170 = bitcast <8 x i16> %t169 to <8 x bfloat>
 %t171 = getelementptr bfloat, ptr %t164, i64 %t167
 %t172 = load <8 x i16>, ptr %t171, align 2
 %t173 = bitcast <8 x i16> %t172 to <8 x bfloat>
 %t174 = bitcast <8 x bfloat> %t170 to <8 x i16>
 %t175 = zext <8 x i16> %t174 to <8 x i32>
 %t176 = shl <8 x i32> %t175, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t177 = bitcast <8 x i32> %t176 to <8 x float>
 %t178 = fadd <8 x float> %t156, %t177
 %t179 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t178
 %t180 = select <8 x i1> %t179, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t178
 %t181 = bitcast <8 x float> %t180 to <8 x i32>
 %t182 = lshr <8 x i32> %t181, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t183 = and <8 x i32> %t182, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t184 = add <8 x i32> %t183, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t185 = add <8 x i32> %t181, %t184
 %t186 = lshr <8 x i32> %t185, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t187 = lshr <8 x i32> %t181, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t188 = or <8 x i32> %t187, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t189 = and <8 x i32> %t181, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t190 = icmp ugt <8 x i32> %t189, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t191 = select <8 x i1> %t190, <8 x i32> %t188, <8 x i32> %t186
 %t192 = trunc <8 x i32> %t191 to <8 x i16>
 %t193 = bitcast <8 x i16> %t192 to <8 x bfloat>
 %t194 = mul i64 %m, 15
 %t195 = add i64 %t194, %n
 %t196 = getelementptr bfloat, ptr %t166, i64 %t195
 store <8 x bfloat> %t193, ptr %t196, align 2
 %t197 = bitcast <8 x bfloat> %t173 to <8 x i16>
 %t198 = zext <8 x i16> %t197 to <8 x i32>
 %t199 = shl <8 x i32> %t198, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t200 = bitcast <8 x i32> %t199 to <8 x float>
 %t201 = fadd <8 x float> %t157, %t200
 %t202 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t201
 %t203 = select <8 x i1> %t202, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t201
 %t204 = bitcast <8 x float> %t203 to <8 x i32>
 %t205 = lshr <8 x i32> %t204, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t206 = and <8 x i32> %t205, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t207 = add <8 x i32> %t206, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t208 = add <8 x i32> %t204, %t207
 %t209 = lshr <8 x i32> %t208, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t210 = lshr <8 x i32> %t204, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t211 = or <8 x i32> %t210, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t212 = and <8 x i32> %t204, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t213 = icmp ugt <8 x i32> %t212, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t214 = select <8 x i1> %t213, <8 x i32> %t211, <8 x i32> %t209
 %t215 = trunc <8 x i32> %t214 to <8 x i16>
 %t216 = bitcast <8 x i16> %t215 to <8 x bfloat>
 %t217 = mul i64 %m, 15
 %t218 = add i64 %t217, %t167
 %t219 = getelementptr bfloat, ptr %t166, i64 %t218
 store <8 x bfloat> %t216, ptr %t219, align 2
 %t220 = add i64 %m, 1
 %t221 = bitcast <8 x bfloat> %t170 to <8 x i16>
 %t222 = zext <8 x i16> %t221 to <8 x i32>
 %t223 = shl <8 x i32> %t222, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t224 = bitcast <8 x i32> %t223 to <8 x float>
 %t225 = fadd <8 x float> %t158, %t224
 %t226 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t225
 %t227 = select <8 x i1> %t226, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t225
 %t228 = bitcast <8 x float> %t227 to <8 x i32>
 %t229 = lshr <8 x i32> %t228, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t230 = and <8 x i32> %t229, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t231 = add <8 x i32> %t230, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t232 = add <8 x i32> %t228, %t231
 %t233 = lshr <8 x i32> %t232, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t234 = lshr <8 x i32> %t228, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t235 = or <8 x i32> %t234, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t236 = and <8 x i32> %t228, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t237 = icmp ugt <8 x i32> %t236, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t238 = select <8 x i1> %t237, <8 x i32> %t235, <8 x i32> %t233
 %t239 = trunc <8 x i32> %t238 to <8 x i16>
 %t240 = bitcast <8 x i16> %t239 to <8 x bfloat>
 %t241 = mul i64 %t220, 15
 %t242 = add i64 %t241, %n
 %t243 = getelementptr bfloat, ptr %t166, i64 %t242
 store <8 x bfloat> %t240, ptr %t243, align 2
 %t244 = bitcast <8 x bfloat> %t173 to <8 x i16>
 %t245 = zext <8 x i16> %t244 to <8 x i32>
 %t246 = shl <8 x i32> %t245, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t247 = bitcast <8 x i32> %t246 to <8 x float>
 %t248 = fadd <8 x float> %t159, %t247
 %t249 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t248
 %t250 = select <8 x i1> %t249, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t248
 %t251 = bitcast <8 x float> %t250 to <8 x i32>
 %t252 = lshr <8 x i32> %t251, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t253 = and <8 x i32> %t252, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t254 = add <8 x i32> %t253, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t255 = add <8 x i32> %t251, %t254
 %t256 = lshr <8 x i32> %t255, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t257 = lshr <8 x i32> %t251, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t258 = or <8 x i32> %t257, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t259 = and <8 x i32> %t251, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t260 = icmp ugt <8 x i32> %t259, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t261 = select <8 x i1> %t260, <8 x i32> %t258, <8 x i32> %t256
 %t262 = trunc <8 x i32> %t261 to <8 x i16>
 %t263 = bitcast <8 x i16> %t262 to <8 x bfloat>
 %t264 = mul i64 %t220, 15
 %t265 = add i64 %t264, %t167
 %t266 = getelementptr bfloat, ptr %t166, i64 %t265
 store <8 x bfloat> %t263, ptr %t266, align 2
 %t267 = add i64 %m, 2
 %t268 = bitcast <8 x bfloat> %t170 to <8 x i16>
 %t269 = zext <8 x i16> %t268 to <8 x i32>
 %t270 = shl <8 x i32> %t269, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t271 = bitcast <8 x i32> %t270 to <8 x float>
 %t272 = fadd <8 x float> %t160, %t271
 %t273 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t272
 %t274 = select <8 x i1> %t273, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t272
 %t275 = bitcast <8 x float> %t274 to <8 x i32>
 %t276 = lshr <8 x i32> %t275, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t277 = and <8 x i32> %t276, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t278 = add <8 x i32> %t277, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t279 = add <8 x i32> %t275, %t278
 %t280 = lshr <8 x i32> %t279, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t281 = lshr <8 x i32> %t275, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t282 = or <8 x i32> %t281, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t283 = and <8 x i32> %t275, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t284 = icmp ugt <8 x i32> %t283, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t285 = select <8 x i1> %t284, <8 x i32> %t282, <8 x i32> %t280
 %t286 = trunc <8 x i32> %t285 to <8 x i16>
 %t287 = bitcast <8 x i16> %t286 to <8 x bfloat>
 %t288 = mul i64 %t267, 15
 %t289 = add i64 %t288, %n
 %t290 = getelementptr bfloat, ptr %t166, i64 %t289
 store <8 x bfloat> %t287, ptr %t290, align 2
 %t291 = bitcast <8 x bfloat> %t173 to <8 x i16>
 %t292 = zext <8 x i16> %t291 to <8 x i32>
 %t293 = shl <8 x i32> %t292, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t294 = bitcast <8 x i32> %t293 to <8 x float>
 %t295 = fadd <8 x float> %t161, %t294
 %t296 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t295
 %t297 = select <8 x i1> %t296, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t295
 %t298 = bitcast <8 x float> %t297 to <8 x i32>
 %t299 = lshr <8 x i32> %t298, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t300 = and <8 x i32> %t299, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t301 = add <8 x i32> %t300, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t302 = add <8 x i32> %t298, %t301
 %t303 = lshr <8 x i32> %t302, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t304 = lshr <8 x i32> %t298, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t305 = or <8 x i32> %t304, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t306 = and <8 x i32> %t298, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t307 = icmp ugt <8 x i32> %t306, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t308 = select <8 x i1> %t307, <8 x i32> %t305, <8 x i32> %t303
 %t309 = trunc <8 x i32> %t308 to <8 x i16>
 %t310 = bitcast <8 x i16> %t309 to <8 x bfloat>
 %t311 = mul i64 %t267, 15
 %t312 = add i64 %t311, %t167
 %t313 = getelementptr bfloat, ptr %t166, i64 %t312
 store <8 x bfloat> %t310, ptr %t313, align 2
 %t314 = add i64 %m, 3
 %t315 = bitcast <8 x bfloat> %t170 to <8 x i16>
 %t316 = zext <8 x i16> %t315 to <8 x i32>
 %t317 = shl <8 x i32> %t316, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t318 = bitcast <8 x i32> %t317 to <8 x float>
 %t319 = fadd <8 x float> %t162, %t318
 %t320 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t319
 %t321 = select <8 x i1> %t320, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t319
 %t322 = bitcast <8 x float> %t321 to <8 x i32>
 %t323 = lshr <8 x i32> %t322, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t324 = and <8 x i32> %t323, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t325 = add <8 x i32> %t324, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t326 = add <8 x i32> %t322, %t325
 %t327 = lshr <8 x i32> %t326, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t328 = lshr <8 x i32> %t322, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t329 = or <8 x i32> %t328, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t330 = and <8 x i32> %t322, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t331 = icmp ugt <8 x i32> %t330, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t332 = select <8 x i1> %t331, <8 x i32> %t329, <8 x i32> %t327
 %t333 = trunc <8 x i32> %t332 to <8 x i16>
 %t334 = bitcast <8 x i16> %t333 to <8 x bfloat>
 %t335 = mul i64 %t314, 15
 %t336 = add i64 %t335, %n
 %t337 = getelementptr bfloat, ptr %t166, i64 %t336
 store <8 x bfloat> %t334, ptr %t337, align 2
 %t338 = bitcast <8 x bfloat> %t173 to <8 x i16>
 %t339 = zext <8 x i16> %t338 to <8 x i32>
 %t340 = shl <8 x i32> %t339, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t341 = bitcast <8 x i32> %t340 to <8 x float>
 %t342 = fadd <8 x float> %t163, %t341
 %t343 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t342
 %t344 = select <8 x i1> %t343, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t342
 %t345 = bitcast <8 x float> %t344 to <8 x i32>
 %t346 = lshr <8 x i32> %t345, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t347 = and <8 x i32> %t346, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t348 = add <8 x i32> %t347, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t349 = add <8 x i32> %t345, %t348
 %t350 = lshr <8 x i32> %t349, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t351 = lshr <8 x i32> %t345, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t352 = or <8 x i32> %t351, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t353 = and <8 x i32> %t345, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t354 = icmp ugt <8 x i32> %t353, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t355 = select <8 x i1> %t354, <8 x i32> %t352, <8 x i32> %t350
 %t356 = trunc <8 x i32> %t355 to <8 x i16>
 %t357 = bitcast <8 x i16> %t356 to <8 x bfloat>
 %t358 = mul i64 %t314, 15
 %t359 = add i64 %t358, %t167
 %t360 = getelementptr bfloat, ptr %t166, i64 %t359
 store <8 x bfloat> %t357, ptr %t360, align 2
 ret void
}
define internal void @tile_edge_5x1x2(ptr noalias %frame, ptr noalias readonly %a, ptr noalias readonly %b, i64 %m, i64 %n, i64 %cols, i64 %k, i1 %first, ptr noalias %buffer, ptr %soon, i64 %pace) nounwind noinline {
entry:
 %t1 = alloca <8 x float>
 %t2 = alloca <8 x float>
 %t3 = alloca <8 x float>
 %t4 = alloca <8 x float>
 %t5 = alloca <8 x float>
 %t6 = alloca <8 x float>
 %t7 = alloca <8 x float>
 %t8 = alloca <8 x float>
 %t9 = alloca <8 x float>
 %t10 = alloca <8 x float>
 %t222 = alloca [16 x i8], align 64
 %t231 = alloca [16 x i8], align 64
 %t263 = alloca [16 x i8], align 64
 %t293 = alloca [16 x i8], align 64
 %t324 = alloca [16 x i8], align 64
 %t354 = alloca [16 x i8], align 64
 %t385 = alloca [16 x i8], align 64
 %t415 = alloca [16 x i8], align 64
 %t446 = alloca [16 x i8], align 64
 %t476 = alloca [16 x i8], align 64
 %t507 = alloca [16 x i8], align 64
 %t537 = alloca [16 x i8], align 64
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t1
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t2
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t3
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t4
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t5
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t6
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t7
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t8
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t9
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t10
 %t11 = getelementptr float, ptr %buffer, i64 8
 %t12 = getelementptr float, ptr %buffer, i64 16
 %t13 = getelementptr float, ptr %buffer, i64 24
 %t14 = getelementptr float, ptr %buffer, i64 32
 %t15 = getelementptr float, ptr %buffer, i64 40
 %t16 = getelementptr float, ptr %buffer, i64 48
 %t17 = getelementptr float, ptr %buffer, i64 56
 %t18 = getelementptr float, ptr %buffer, i64 64
 %t19 = getelementptr float, ptr %buffer, i64 72
 %t150 = load <8 x float>, ptr %b, align 4
 %t151 = getelementptr float, ptr %b, i64 8
 %t152 = load <8 x float>, ptr %t151, align 4
 %t153 = load float, ptr %a, align 4
 %t154 = insertelement <8 x float> poison, float %t153, i32 0
 %t155 = shufflevector <8 x float> %t154, <8 x float> poison, <8 x i32> zeroinitializer
 %t156 = load <8 x float>, ptr %t1
 %t157 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t155, <8 x float> %t150, <8 x float> %t156)
 store <8 x float> %t157, ptr %t1
 %t158 = load <8 x float>, ptr %t2
 %t159 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t155, <8 x float> %t152, <8 x float> %t158)
 store <8 x float> %t159, ptr %t2
 %t160 = getelementptr float, ptr %a, i64 1
 %t161 = load float, ptr %t160, align 4
 %t162 = insertelement <8 x float> poison, float %t161, i32 0
 %t163 = shufflevector <8 x float> %t162, <8 x float> poison, <8 x i32> zeroinitializer
 %t164 = load <8 x float>, ptr %t3
 %t165 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t163, <8 x float> %t150, <8 x float> %t164)
 store <8 x float> %t165, ptr %t3
 %t166 = load <8 x float>, ptr %t4
 %t167 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t163, <8 x float> %t152, <8 x float> %t166)
 store <8 x float> %t167, ptr %t4
 %t168 = getelementptr float, ptr %a, i64 2
 %t169 = load float, ptr %t168, align 4
 %t170 = insertelement <8 x float> poison, float %t169, i32 0
 %t171 = shufflevector <8 x float> %t170, <8 x float> poison, <8 x i32> zeroinitializer
 %t172 = load <8 x float>, ptr %t5
 %t173 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t171, <8 x float> %t150, <8 x float> %t172)
 store <8 x float> %t173, ptr %t5
 %t174 = load <8 x float>, ptr %t6
 %t175 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t171, <8 x float> %t152, <8 x float> %t174)
 store <8 x float> %t175, ptr %t6
 %t176 = getelementptr float, ptr %a, i64 3
 %t177 = load float, ptr %t176, align 4
 %t178 = insertelement <8 x float> poison, float %t177, i32 0
 %t179 = shufflevector <8 x float> %t178, <8 x float> poison, <8 x i32> zeroinitializer
 %t180 = load <8 x float>, ptr %t7
 %t181 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t179, <8 x float> %t150, <8 x float> %t180)
 store <8 x float> %t181, ptr %t7
 %t182 = load <8 x float>, ptr %t8
 %t183 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t179, <8 x float> %t152, <8 x float> %t182)
 store <8 x float> %t183, ptr %t8
 %t184 = getelementptr float, ptr %a, i64 4
 %t185 = load float, ptr %t184, align 4
 %t186 = insertelement <8 x float> poison, float %t185, i32 0
 %t187 = shufflevector <8 x float> %t186, <8 x float> poison, <8 x i32> zeroinitializer
 %t188 = load <8 x float>, ptr %t9
 %t189 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t187, <8 x float> %t150, <8 x float> %t188)
 store <8 x float> %t189, ptr %t9
 %t190 = load <8 x float>, ptr %t10
 %t191 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t187, <8 x float> %t152, <8 x float> %t190)
 store <8 x float> %t191, ptr %t10
 %t192 = load <8 x float>, ptr %t1
 %t193 = load <8 x float>, ptr %t2
 %t194 = load <8 x float>, ptr %t3
 %t195 = load <8 x float>, ptr %t4
 %t196 = load <8 x float>, ptr %t5
 %t197 = load <8 x float>, ptr %t6
 %t198 = load <8 x float>, ptr %t7
 %t199 = load <8 x float>, ptr %t8
 %t200 = load <8 x float>, ptr %t9
 %t201 = load <8 x float>, ptr %t10
 %t202 = load ptr, ptr %frame, align 8
 %t203 = getelementptr i8, ptr %frame, i64 8
 %t204 = load ptr, ptr %t203, align 8
 %t205 = add i64 %n, 8
 %t206 = call i64 @llvm.smin.i64(i64 %cols, i64 8)
 %t207 = call i64 @llvm.smin.i64(i64 %t206, i64 8)
 %t208 = call i64 @llvm.smax.i64(i64 %t207, i64 0)
 %t209 = trunc i64 %t208 to i32
 %t210 = insertelement <8 x i32> poison, i32 %t209, i32 0
 %t211 = shufflevector <8 x i32> %t210, <8 x i32> poison, <8 x i32> zeroinitializer
 %t212 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t211
 %t213 = sub i64 %cols, 8
 %t214 = call i64 @llvm.smin.i64(i64 %t213, i64 8)
 %t215 = call i64 @llvm.smin.i64(i64 %t214, i64 8)
 %t216 = call i64 @llvm.smax.i64(i64 %t215, i64 0)
 %t217 = trunc i64 %t216 to i32
 %t218 = insertelement <8 x i32> poison, i32 %t217, i32 0
 %t219 = shufflevector <8 x i32> %t218, <8 x i32> poison, <8 x i32> zeroinitializer
 %t220 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t219
 %t221 = getelementptr bfloat, ptr %t202, i64 %n
 store <8 x i16> zeroinitializer, ptr %t222, align 2
 %t224 = icmp slt i64 0, %t206
 br i1 %t224, label %for223.pre, label %for223.end
for223.pre:
 br label %for223
for223:
 %i223 = phi i64 [ 0, %for223.pre ], [ %i223.next, %for223.latch ]
 %t225 = getelementptr i16, ptr %t221, i64 %i223
 %t226 = load i16, ptr %t225, align 2
 %t227 = getelementptr i16, ptr %t222, i64 %i223
 store i16 %t226, ptr %t227, align 2
 br label %for223.latch
for223.latch:
 %i223.next = add nsw i64 %i223, 1
 %i223.more = icmp slt i64 %i223.next, %t206
 br i1 %i223.more, label %for223, label %for223.end, !llvm.loop !15
for223.end:
 %t228 = load <8 x i16>, ptr %t222, align 2
 %t229 = bitcast <8 x i16> %t228 to <8 x bfloat>
 %t230 = getelementptr bfloat, ptr %t202, i64 %t205
 store <8 x i16> zeroinitializer, ptr %t231, align 2
 %t233 = icmp slt i64 0, %t214
 br i1 %t233, label %for232.pre, label %for232.end
for232.pre:
 br label %for232
for232:
 %i232 = phi i64 [ 0, %for232.pre ], [ %i232.next, %for232.latch ]
 %t234 = getelementptr i16, ptr %t230, i64 %i232
 %t235 = load i16, ptr %t234, align 2
 %t236 = getelementptr i16, ptr %t231, i64 %i232
 store i16 %t235, ptr %t236, align 2
 br label %for232.latch
for232.latch:
 %i232.next = add nsw i64 %i232, 1
 %i232.more = icmp slt i64 %i232.next, %t214
 br i1 %i232.more, label %for232, label %for232.end, !llvm.loop !16
for232.end:
 %t237 = load <8 x i16>, ptr %t231, align 2
 %t238 = bitcast <8 x i16> %t237 to <8 x bfloat>
 %t239 = bitcast <8 x bfloat> %t229 to <8 x i16>
 %t240 = zext <8 x i16> %t239 to <8 x i32>
 %t241 = shl <8 x i32> %t240, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t242 = bitcast <8 x i32> %t241 to <8 x float>
 %t243 = fadd <8 x float> %t192, %t242
 %t244 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t243
 %t245 = select <8 x i1> %t244, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t243
 %t246 = bitcast <8 x float> %t245 to <8 x i32>
 %t247 = lshr <8 x i32> %t246, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t248 = and <8 x i32> %t247, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t249 = add <8 x i32> %t248, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t250 = add <8 x i32> %t246, %t249
 %t251 = lshr <8 x i32> %t250, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t252 = lshr <8 x i32> %t246, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t253 = or <8 x i32> %t252, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t254 = and <8 x i32> %t246, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t255 = icmp ugt <8 x i32> %t254, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t256 = select <8 x i1> %t255, <8 x i32> %t253, <8 x i32> %t251
 %t257 = trunc <8 x i32> %t256 to <8 x i16>
 %t258 = bitcast <8 x i16> %t257 to <8 x bfloat>
 %t259 = mul i64 %m, 15
 %t260 = add i64 %t259, %n
 %t261 = getelementptr bfloat, ptr %t204, i64 %t260
 %t262 = bitcast <8 x bfloat> %t258 to <8 x i16>
 store <8 x i16> %t262, ptr %t263, align 2
 %t265 = icmp slt i64 0, %t206
 br i1 %t265, label %for264.pre, label %for264.end
for264.pre:
 br label %for264
for264:
 %i264 = phi i64 [ 0, %for264.pre ], [ %i264.next, %for264.latch ]
 %t266 = getelementptr i16, ptr %t263, i64 %i264
 %t267 = load i16, ptr %t266, align 2
 %t268 = getelementptr i16, ptr %t261, i64 %i264
 store i16 %t267, ptr %t268, align 2
 br label %for264.latch
for264.latch:
 %i264.next = add nsw i64 %i264, 1
 %i264.more = icmp slt i64 %i264.next, %t206
 br i1 %i264.more, label %for264, label %for264.end, !llvm.loop !17
for264.end:
 %t269 = bitcast <8 x bfloat> %t238 to <8 x i16>
 %t270 = zext <8 x i16> %t269 to <8 x i32>
 %t271 = shl <8 x i32> %t270, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t272 = bitcast <8 x i32> %t271 to <8 x float>
 %t273 = fadd <8 x float> %t193, %t272
 %t274 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t273
 %t275 = select <8 x i1> %t274, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t273
 %t276 = bitcast <8 x float> %t275 to <8 x i32>
 %t277 = lshr <8 x i32> %t276, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t278 = and <8 x i32> %t277, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t279 = add <8 x i32> %t278, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t280 = add <8 x i32> %t276, %t279
 %t281 = lshr <8 x i32> %t280, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t282 = lshr <8 x i32> %t276, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t283 = or <8 x i32> %t282, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t284 = and <8 x i32> %t276, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t285 = icmp ugt <8 x i32> %t284, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t286 = select <8 x i1> %t285, <8 x i32> %t283, <8 x i32> %t281
 %t287 = trunc <8 x i32> %t286 to <8 x i16>
 %t288 = bitcast <8 x i16> %t287 to <8 x bfloat>
 %t289 = mul i64 %m, 15
 %t290 = add i64 %t289, %t205
 %t291 = getelementptr bfloat, ptr %t204, i64 %t290
 %t292 = bitcast <8 x bfloat> %t288 to <8 x i16>
 store <8 x i16> %t292, ptr %t293, align 2
 %t295 = icmp slt i64 0, %t214
 br i1 %t295, label %for294.pre, label %for294.end
for294.pre:
 br label %for294
for294:
 %i294 = phi i64 [ 0, %for294.pre ], [ %i294.next, %for294.latch ]
 %t296 = getelementptr i16, ptr %t293, i64 %i294
 %t297 = load i16, ptr %t296, align 2
 %t298 = getelementptr i16, ptr %t291, i64 %i294
 store i16 %t297, ptr %t298, align 2
 br label %for294.latch
for294.latch:
 %i294.next = add nsw i64 %i294, 1
 %i294.more = icmp slt i64 %i294.next, %t214
 br i1 %i294.more, label %for294, label %for294.end, !llvm.loop !18
for294.end:
 %t299 = add i64 %m, 1
 %t300 = bitcast <8 x bfloat> %t229 to <8 x i16>
 %t301 = zext <8 x i16> %t300 to <8 x i32>
 %t302 = shl <8 x i32> %t301, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t303 = bitcast <8 x i32> %t302 to <8 x float>
 %t304 = fadd <8 x float> %t194, %t303
 %t305 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t304
 %t306 = select <8 x i1> %t305, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t304
 %t307 = bitcast <8 x float> %t306 to <8 x i32>
 %t308 = lshr <8 x i32> %t307, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t309 = and <8 x i32> %t308, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t310 = add <8 x i32> %t309, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t311 = add <8 x i32> %t307, %t310
 %t312 = lshr <8 x i32> %t311, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t313 = lshr <8 x i32> %t307, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t314 = or <8 x i32> %t313, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t315 = and <8 x i32> %t307, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t316 = icmp ugt <8 x i32> %t315, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t317 = select <8 x i1> %t316, <8 x i32> %t314, <8 x i32> %t312
 %t318 = trunc <8 x i32> %t317 to <8 x i16>
 %t319 = bitcast <8 x i16> %t318 to <8 x bfloat>
 %t320 = mul i64 %t299, 15
 %t321 = add i64 %t320, %n
 %t322 = getelementptr bfloat, ptr %t204, i64 %t321
 %t323 = bitcast <8 x bfloat> %t319 to <8 x i16>
 store <8 x i16> %t323, ptr %t324, align 2
 %t326 = icmp slt i64 0, %t206
 br i1 %t326, label %for325.pre, label %for325.end
for325.pre:
 br label %for325
for325:
 %i325 = phi i64 [ 0, %for325.pre ], [ %i325.next, %for325.latch ]
 %t327 = getelementptr i16, ptr %t324, i64 %i325
 %t328 = load i16, ptr %t327, align 2
 %t329 = getelementptr i16, ptr %t322, i64 %i325
 store i16 %t328, ptr %t329, align 2
 br label %for325.latch
for325.latch:
 %i325.next = add nsw i64 %i325, 1
 %i325.more = icmp slt i64 %i325.next, %t206
 br i1 %i325.more, label %for325, label %for325.end, !llvm.loop !19
for325.end:
 %t330 = bitcast <8 x bfloat> %t238 to <8 x i16>
 %t331 = zext <8 x i16> %t330 to <8 x i32>
 %t332 = shl <8 x i32> %t331, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t333 = bitcast <8 x i32> %t332 to <8 x float>
 %t334 = fadd <8 x float> %t195, %t333
 %t335 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t334
 %t336 = select <8 x i1> %t335, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t334
 %t337 = bitcast <8 x float> %t336 to <8 x i32>
 %t338 = lshr <8 x i32> %t337, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t339 = and <8 x i32> %t338, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t340 = add <8 x i32> %t339, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t341 = add <8 x i32> %t337, %t340
 %t342 = lshr <8 x i32> %t341, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t343 = lshr <8 x i32> %t337, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t344 = or <8 x i32> %t343, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t345 = and <8 x i32> %t337, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t346 = icmp ugt <8 x i32> %t345, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t347 = select <8 x i1> %t346, <8 x i32> %t344, <8 x i32> %t342
 %t348 = trunc <8 x i32> %t347 to <8 x i16>
 %t349 = bitcast <8 x i16> %t348 to <8 x bfloat>
 %t350 = mul i64 %t299, 15
 %t351 = add i64 %t350, %t205
 %t352 = getelementptr bfloat, ptr %t204, i64 %t351
 %t353 = bitcast <8 x bfloat> %t349 to <8 x i16>
 store <8 x i16> %t353, ptr %t354, align 2
 %t356 = icmp slt i64 0, %t214
 br i1 %t356, label %for355.pre, label %for355.end
for355.pre:
 br label %for355
for355:
 %i355 = phi i64 [ 0, %for355.pre ], [ %i355.next, %for355.latch ]
 %t357 = getelementptr i16, ptr %t354, i64 %i355
 %t358 = load i16, ptr %t357, align 2
 %t359 = getelementptr i16, ptr %t352, i64 %i355
 store i16 %t358, ptr %t359, align 2
 br label %for355.latch
for355.latch:
 %i355.next = add nsw i64 %i355, 1
 %i355.more = icmp slt i64 %i355.next, %t214
 br i1 %i355.more, label %for355, label %for355.end, !llvm.loop !20
for355.end:
 %t360 = add i64 %m, 2
 %t361 = bitcast <8 x bfloat> %t229 to <8 x i16>
 %t362 = zext <8 x i16> %t361 to <8 x i32>
 %t363 = shl <8 x i32> %t362, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t364 = bitcast <8 x i32> %t363 to <8 x float>
 %t365 = fadd <8 x float> %t196, %t364
 %t366 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t365
 %t367 = select <8 x i1> %t366, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t365
 %t368 = bitcast <8 x float> %t367 to <8 x i32>
 %t369 = lshr <8 x i32> %t368, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t370 = and <8 x i32> %t369, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t371 = add <8 x i32> %t370, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t372 = add <8 x i32> %t368, %t371
 %t373 = lshr <8 x i32> %t372, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t374 = lshr <8 x i32> %t368, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t375 = or <8 x i32> %t374, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t376 = and <8 x i32> %t368, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t377 = icmp ugt <8 x i32> %t376, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t378 = select <8 x i1> %t377, <8 x i32> %t375, <8 x i32> %t373
 %t379 = trunc <8 x i32> %t378 to <8 x i16>
 %t380 = bitcast <8 x i16> %t379 to <8 x bfloat>
 %t381 = mul i64 %t360, 15
 %t382 = add i64 %t381, %n
 %t383 = getelementptr bfloat, ptr %t204, i64 %t382
 %t384 = bitcast <8 x bfloat> %t380 to <8 x i16>
 store <8 x i16> %t384, ptr %t385, align 2
 %t387 = icmp slt i64 0, %t206
 br i1 %t387, label %for386.pre, label %for386.end
for386.pre:
 br label %for386
for386:
 %i386 = phi i64 [ 0, %for386.pre ], [ %i386.next, %for386.latch ]
 %t388 = getelementptr i16, ptr %t385, i64 %i386
 %t389 = load i16, ptr %t388, align 2
 %t390 = getelementptr i16, ptr %t383, i64 %i386
 store i16 %t389, ptr %t390, align 2
 br label %for386.latch
for386.latch:
 %i386.next = add nsw i64 %i386, 1
 %i386.more = icmp slt i64 %i386.next, %t206
 br i1 %i386.more, label %for386, label %for386.end, !llvm.loop !21
for386.end:
 %t391 = bitcast <8 x bfloat> %t238 to <8 x i16>
 %t392 = zext <8 x i16> %t391 to <8 x i32>
 %t393 = shl <8 x i32> %t392, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t394 = bitcast <8 x i32> %t393 to <8 x float>
 %t395 = fadd <8 x float> %t197, %t394
 %t396 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t395
 %t397 = select <8 x i1> %t396, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t395
 %t398 = bitcast <8 x float> %t397 to <8 x i32>
 %t399 = lshr <8 x i32> %t398, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t400 = and <8 x i32> %t399, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t401 = add <8 x i32> %t400, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t402 = add <8 x i32> %t398, %t401
 %t403 = lshr <8 x i32> %t402, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t404 = lshr <8 x i32> %t398, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t405 = or <8 x i32> %t404, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t406 = and <8 x i32> %t398, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t407 = icmp ugt <8 x i32> %t406, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t408 = select <8 x i1> %t407, <8 x i32> %t405, <8 x i32> %t403
 %t409 = trunc <8 x i32> %t408 to <8 x i16>
 %t410 = bitcast <8 x i16> %t409 to <8 x bfloat>
 %t411 = mul i64 %t360, 15
 %t412 = add i64 %t411, %t205
 %t413 = getelementptr bfloat, ptr %t204, i64 %t412
 %t414 = bitcast <8 x bfloat> %t410 to <8 x i16>
 store <8 x i16> %t414, ptr %t415, align 2
 %t417 = icmp slt i64 0, %t214
 br i1 %t417, label %for416.pre, label %for416.end
for416.pre:
 br label %for416
for416:
 %i416 = phi i64 [ 0, %for416.pre ], [ %i416.next, %for416.latch ]
 %t418 = getelementptr i16, ptr %t415, i64 %i416
 %t419 = load i16, ptr %t418, align 2
 %t420 = getelementptr i16, ptr %t413, i64 %i416
 store i16 %t419, ptr %t420, align 2
 br label %for416.latch
for416.latch:
 %i416.next = add nsw i64 %i416, 1
 %i416.more = icmp slt i64 %i416.next, %t214
 br i1 %i416.more, label %for416, label %for416.end, !llvm.loop !22
for416.end:
 %t421 = add i64 %m, 3
 %t422 = bitcast <8 x bfloat> %t229 to <8 x i16>
 %t423 = zext <8 x i16> %t422 to <8 x i32>
 %t424 = shl <8 x i32> %t423, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t425 = bitcast <8 x i32> %t424 to <8 x float>
 %t426 = fadd <8 x float> %t198, %t425
 %t427 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t426
 %t428 = select <8 x i1> %t427, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t426
 %t429 = bitcast <8 x float> %t428 to <8 x i32>
 %t430 = lshr <8 x i32> %t429, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t431 = and <8 x i32> %t430, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t432 = add <8 x i32> %t431, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t433 = add <8 x i32> %t429, %t432
 %t434 = lshr <8 x i32> %t433, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t435 = lshr <8 x i32> %t429, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t436 = or <8 x i32> %t435, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t437 = and <8 x i32> %t429, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t438 = icmp ugt <8 x i32> %t437, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t439 = select <8 x i1> %t438, <8 x i32> %t436, <8 x i32> %t434
 %t440 = trunc <8 x i32> %t439 to <8 x i16>
 %t441 = bitcast <8 x i16> %t440 to <8 x bfloat>
 %t442 = mul i64 %t421, 15
 %t443 = add i64 %t442, %n
 %t444 = getelementptr bfloat, ptr %t204, i64 %t443
 %t445 = bitcast <8 x bfloat> %t441 to <8 x i16>
 store <8 x i16> %t445, ptr %t446, align 2
 %t448 = icmp slt i64 0, %t206
 br i1 %t448, label %for447.pre, label %for447.end
for447.pre:
 br label %for447
for447:
 %i447 = phi i64 [ 0, %for447.pre ], [ %i447.next, %for447.latch ]
 %t449 = getelementptr i16, ptr %t446, i64 %i447
 %t450 = load i16, ptr %t449, align 2
 %t451 = getelementptr i16, ptr %t444, i64 %i447
 store i16 %t450, ptr %t451, align 2
 br label %for447.latch
for447.latch:
 %i447.next = add nsw i64 %i447, 1
 %i447.more = icmp slt i64 %i447.next, %t206
 br i1 %i447.more, label %for447, label %for447.end, !llvm.loop !23
for447.end:
 %t452 = bitcast <8 x bfloat> %t238 to <8 x i16>
 %t453 = zext <8 x i16> %t452 to <8 x i32>
 %t454 = shl <8 x i32> %t453, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t455 = bitcast <8 x i32> %t454 to <8 x float>
 %t456 = fadd <8 x float> %t199, %t455
 %t457 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t456
 %t458 = select <8 x i1> %t457, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t456
 %t459 = bitcast <8 x float> %t458 to <8 x i32>
 %t460 = lshr <8 x i32> %t459, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t461 = and <8 x i32> %t460, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t462 = add <8 x i32> %t461, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t463 = add <8 x i32> %t459, %t462
 %t464 = lshr <8 x i32> %t463, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t465 = lshr <8 x i32> %t459, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t466 = or <8 x i32> %t465, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t467 = and <8 x i32> %t459, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t468 = icmp ugt <8 x i32> %t467, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t469 = select <8 x i1> %t468, <8 x i32> %t466, <8 x i32> %t464
 %t470 = trunc <8 x i32> %t469 to <8 x i16>
 %t471 = bitcast <8 x i16> %t470 to <8 x bfloat>
 %t472 = mul i64 %t421, 15
 %t473 = add i64 %t472, %t205
 %t474 = getelementptr bfloat, ptr %t204, i64 %t473
 %t475 = bitcast <8 x bfloat> %t471 to <8 x i16>
 store <8 x i16> %t475, ptr %t476, align 2
 %t478 = icmp slt i64 0, %t214
 br i1 %t478, label %for477.pre, label %for477.end
for477.pre:
 br label %for477
for477:
 %i477 = phi i64 [ 0, %for477.pre ], [ %i477.next, %for477.latch ]
 %t479 = getelementptr i16, ptr %t476, i64 %i477
 %t480 = load i16, ptr %t479, align 2
 %t481 = getelementptr i16, ptr %t474, i64 %i477
 store i16 %t480, ptr %t481, align 2
 br label %for477.latch
for477.latch:
 %i477.next = add nsw i64 %i477, 1
 %i477.more = icmp slt i64 %i477.next, %t214
 br i1 %i477.more, label %for477, label %for477.end, !llvm.loop !24
for477.end:
 %t482 = add i64 %m, 4
 %t483 = bitcast <8 x bfloat> %t229 to <8 x i16>
 %t484 = zext <8 x i16> %t483 to <8 x i32>
 %t485 = shl <8 x i32> %t484, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t486 = bitcast <8 x i32> %t485 to <8 x float>
 %t487 = fadd <8 x float> %t200, %t486
 %t488 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t487
 %t489 = select <8 x i1> %t488, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t487
 %t490 = bitcast <8 x float> %t489 to <8 x i32>
 %t491 = lshr <8 x i32> %t490, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t492 = and <8 x i32> %t491, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t493 = add <8 x i32> %t492, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t494 = add <8 x i32> %t490, %t493
 %t495 = lshr <8 x i32> %t494, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t496 = lshr <8 x i32> %t490, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t497 = or <8 x i32> %t496, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t498 = and <8 x i32> %t490, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t499 = icmp ugt <8 x i32> %t498, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t500 = select <8 x i1> %t499, <8 x i32> %t497, <8 x i32> %t495
 %t501 = trunc <8 x i32> %t500 to <8 x i16>
 %t502 = bitcast <8 x i16> %t501 to <8 x bfloat>
 %t503 = mul i64 %t482, 15
 %t504 = add i64 %t503, %n
 %t505 = getelementptr bfloat, ptr %t204, i64 %t504
 %t506 = bitcast <8 x bfloat> %t502 to <8 x i16>
 store <8 x i16> %t506, ptr %t507, align 2
 %t509 = icmp slt i64 0, %t206
 br i1 %t509, label %for508.pre, label %for508.end
for508.pre:
 br label %for508
for508:
 %i508 = phi i64 [ 0, %for508.pre ], [ %i508.next, %for508.latch ]
 %t510 = getelementptr i16, ptr %t507, i64 %i508
 %t511 = load i16, ptr %t510, align 2
 %t512 = getelementptr i16, ptr %t505, i64 %i508
 store i16 %t511, ptr %t512, align 2
 br label %for508.latch
for508.latch:
 %i508.next = add nsw i64 %i508, 1
 %i508.more = icmp slt i64 %i508.next, %t206
 br i1 %i508.more, label %for508, label %for508.end, !llvm.loop !25
for508.end:
 %t513 = bitcast <8 x bfloat> %t238 to <8 x i16>
 %t514 = zext <8 x i16> %t513 to <8 x i32>
 %t515 = shl <8 x i32> %t514, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t516 = bitcast <8 x i32> %t515 to <8 x float>
 %t517 = fadd <8 x float> %t201, %t516
 %t518 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t517
 %t519 = select <8 x i1> %t518, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t517
 %t520 = bitcast <8 x float> %t519 to <8 x i32>
 %t521 = lshr <8 x i32> %t520, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t522 = and <8 x i32> %t521, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t523 = add <8 x i32> %t522, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t524 = add <8 x i32> %t520, %t523
 %t525 = lshr <8 x i32> %t524, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t526 = lshr <8 x i32> %t520, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t527 = or <8 x i32> %t526, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t528 = and <8 x i32> %t520, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t529 = icmp ugt <8 x i32> %t528, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t530 = select <8 x i1> %t529, <8 x i32> %t527, <8 x i32> %t525
 %t531 = trunc <8 x i32> %t530 to <8 x i16>
 %t532 = bitcast <8 x i16> %t531 to <8 x bfloat>
 %t533 = mul i64 %t482, 15
 %t534 = add i64 %t533, %t205
 %t535 = getelementptr bfloat, ptr %t204, i64 %t534
 %t536 = bitcast <8 x bfloat> %t532 to <8 x i16>
 store <8 x i16> %t536, ptr %t537, align 2
 %t539 = icmp slt i64 0, %t214
 br i1 %t539, label %for538.pre, label %for538.end
for538.pre:
 br label %for538
for538:
 %i538 = phi i64 [ 0, %for538.pre ], [ %i538.next, %for538.latch ]
 %t540 = getelementptr i16, ptr %t537, i64 %i538
 %t541 = load i16, ptr %t540, align 2
 %t542 = getelementptr i16, ptr %t535, i64 %i538
 store i16 %t541, ptr %t542, align 2
 br label %for538.latch
for538.latch:
 %i538.next = add nsw i64 %i538, 1
 %i538.more = icmp slt i64 %i538.next, %t214
 br i1 %i538.more, label %for538, label %for538.end, !llvm.loop !26
for538.end:
 ret void
}
define internal void @tile_edge_4x1x2(ptr noalias %frame, ptr noalias readonly %a, ptr noalias readonly %b, i64 %m, i64 %n, i64 %cols, i64 %k, i1 %first, ptr noalias %buffer, ptr %soon, i64 %pace) nounwind noinline {
entry:
 %t1 = alloca <8 x float>
 %t2 = alloca <8 x float>
 %t3 = alloca <8 x float>
 %t4 = alloca <8 x float>
 %t5 = alloca <8 x float>
 %t6 = alloca <8 x float>
 %t7 = alloca <8 x float>
 %t8 = alloca <8 x float>
 %t184 = alloca [16 x i8], align 64
 %t193 = alloca [16 x i8], align 64
 %t225 = alloca [16 x i8], align 64
 %t255 = alloca [16 x i8], align 64
 %t286 = alloca [16 x i8], align 64
 %t316 = alloca [16 x i8], align 64
 %t347 = alloca [16 x i8], align 64
 %t377 = alloca [16 x i8], align 64
 %t408 = alloca [16 x i8], align 64
 %t438 = alloca [16 x i8], align 64
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t1
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t2
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t3
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t4
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t5
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t6
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t7
 store <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, ptr %t8
 %t9 = getelementptr float, ptr %buffer, i64 8
 %t10 = getelementptr float, ptr %buffer, i64 16
 %t11 = getelementptr float, ptr %buffer, i64 24
 %t12 = getelementptr float, ptr %buffer, i64 32
 %t13 = getelementptr float, ptr %buffer, i64 40
 %t14 = getelementptr float, ptr %buffer, i64 48
 %t15 = getelementptr float, ptr %buffer, i64 56
 %t122 = load <8 x float>, ptr %b, align 4
 %t123 = getelementptr float, ptr %b, i64 8
 %t124 = load <8 x float>, ptr %t123, align 4
 %t125 = load float, ptr %a, align 4
 %t126 = insertelement <8 x float> poison, float %t125, i32 0
 %t127 = shufflevector <8 x float> %t126, <8 x float> poison, <8 x i32> zeroinitializer
 %t128 = load <8 x float>, ptr %t1
 %t129 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t127, <8 x float> %t122, <8 x float> %t128)
 store <8 x float> %t129, ptr %t1
 %t130 = load <8 x float>, ptr %t2
 %t131 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t127, <8 x float> %t124, <8 x float> %t130)
 store <8 x float> %t131, ptr %t2
 %t132 = getelementptr float, ptr %a, i64 1
 %t133 = load float, ptr %t132, align 4
 %t134 = insertelement <8 x float> poison, float %t133, i32 0
 %t135 = shufflevector <8 x float> %t134, <8 x float> poison, <8 x i32> zeroinitializer
 %t136 = load <8 x float>, ptr %t3
 %t137 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t135, <8 x float> %t122, <8 x float> %t136)
 store <8 x float> %t137, ptr %t3
 %t138 = load <8 x float>, ptr %t4
 %t139 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t135, <8 x float> %t124, <8 x float> %t138)
 store <8 x float> %t139, ptr %t4
 %t140 = getelementptr float, ptr %a, i64 2
 %t141 = load float, ptr %t140, align 4
 %t142 = insertelement <8 x float> poison, float %t141, i32 0
 %t143 = shufflevector <8 x float> %t142, <8 x float> poison, <8 x i32> zeroinitializer
 %t144 = load <8 x float>, ptr %t5
 %t145 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t143, <8 x float> %t122, <8 x float> %t144)
 store <8 x float> %t145, ptr %t5
 %t146 = load <8 x float>, ptr %t6
 %t147 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t143, <8 x float> %t124, <8 x float> %t146)
 store <8 x float> %t147, ptr %t6
 %t148 = getelementptr float, ptr %a, i64 3
 %t149 = load float, ptr %t148, align 4
 %t150 = insertelement <8 x float> poison, float %t149, i32 0
 %t151 = shufflevector <8 x float> %t150, <8 x float> poison, <8 x i32> zeroinitializer
 %t152 = load <8 x float>, ptr %t7
 %t153 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t151, <8 x float> %t122, <8 x float> %t152)
 store <8 x float> %t153, ptr %t7
 %t154 = load <8 x float>, ptr %t8
 %t155 = call <8 x float> @llvm.fma.v8f32(<8 x float> %t151, <8 x float> %t124, <8 x float> %t154)
 store <8 x float> %t155, ptr %t8
 %t156 = load <8 x float>, ptr %t1
 %t157 = load <8 x float>, ptr %t2
 %t158 = load <8 x float>, ptr %t3
 %t159 = load <8 x float>, ptr %t4
 %t160 = load <8 x float>, ptr %t5
 %t161 = load <8 x float>, ptr %t6
 %t162 = load <8 x float>, ptr %t7
 %t163 = load <8 x float>, ptr %t8
 %t164 = load ptr, ptr %frame, align 8
 %t165 = getelementptr i8, ptr %frame, i64 8
 %t166 = load ptr, ptr %t165, align 8
 %t167 = add i64 %n, 8
 %t168 = call i64 @llvm.smin.i64(i64 %cols, i64 8)
 %t169 = call i64 @llvm.smin.i64(i64 %t168, i64 8)
 %t170 = call i64 @llvm.smax.i64(i64 %t169, i64 0)
 %t171 = trunc i64 %t170 to i32
 %t172 = insertelement <8 x i32> poison, i32 %t171, i32 0
 %t173 = shufflevector <8 x i32> %t172, <8 x i32> poison, <8 x i32> zeroinitializer
 %t174 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t173
 %t175 = sub i64 %cols, 8
 %t176 = call i64 @llvm.smin.i64(i64 %t175, i64 8)
 %t177 = call i64 @llvm.smin.i64(i64 %t176, i64 8)
 %t178 = call i64 @llvm.smax.i64(i64 %t177, i64 0)
 %t179 = trunc i64 %t178 to i32
 %t180 = insertelement <8 x i32> poison, i32 %t179, i32 0
 %t181 = shufflevector <8 x i32> %t180, <8 x i32> poison, <8 x i32> zeroinitializer
 %t182 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t181
 %t183 = getelementptr bfloat, ptr %t164, i64 %n
 store <8 x i16> zeroinitializer, ptr %t184, align 2
 %t186 = icmp slt i64 0, %t168
 br i1 %t186, label %for185.pre, label %for185.end
for185.pre:
 br label %for185
for185:
 %i185 = phi i64 [ 0, %for185.pre ], [ %i185.next, %for185.latch ]
 %t187 = getelementptr i16, ptr %t183, i64 %i185
 %t188 = load i16, ptr %t187, align 2
 %t189 = getelementptr i16, ptr %t184, i64 %i185
 store i16 %t188, ptr %t189, align 2
 br label %for185.latch
for185.latch:
 %i185.next = add nsw i64 %i185, 1
 %i185.more = icmp slt i64 %i185.next, %t168
 br i1 %i185.more, label %for185, label %for185.end, !llvm.loop !28
for185.end:
 %t190 = load <8 x i16>, ptr %t184, align 2
 %t191 = bitcast <8 x i16> %t190 to <8 x bfloat>
 %t192 = getelementptr bfloat, ptr %t164, i64 %t167
 store <8 x i16> zeroinitializer, ptr %t193, align 2
 %t195 = icmp slt i64 0, %t176
 br i1 %t195, label %for194.pre, label %for194.end
for194.pre:
 br label %for194
for194:
 %i194 = phi i64 [ 0, %for194.pre ], [ %i194.next, %for194.latch ]
 %t196 = getelementptr i16, ptr %t192, i64 %i194
 %t197 = load i16, ptr %t196, align 2
 %t198 = getelementptr i16, ptr %t193, i64 %i194
 store i16 %t197, ptr %t198, align 2
 br label %for194.latch
for194.latch:
 %i194.next = add nsw i64 %i194, 1
 %i194.more = icmp slt i64 %i194.next, %t176
 br i1 %i194.more, label %for194, label %for194.end, !llvm.loop !29
for194.end:
 %t199 = load <8 x i16>, ptr %t193, align 2
 %t200 = bitcast <8 x i16> %t199 to <8 x bfloat>
 %t201 = bitcast <8 x bfloat> %t191 to <8 x i16>
 %t202 = zext <8 x i16> %t201 to <8 x i32>
 %t203 = shl <8 x i32> %t202, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t204 = bitcast <8 x i32> %t203 to <8 x float>
 %t205 = fadd <8 x float> %t156, %t204
 %t206 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t205
 %t207 = select <8 x i1> %t206, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t205
 %t208 = bitcast <8 x float> %t207 to <8 x i32>
 %t209 = lshr <8 x i32> %t208, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t210 = and <8 x i32> %t209, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t211 = add <8 x i32> %t210, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t212 = add <8 x i32> %t208, %t211
 %t213 = lshr <8 x i32> %t212, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t214 = lshr <8 x i32> %t208, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t215 = or <8 x i32> %t214, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t216 = and <8 x i32> %t208, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t217 = icmp ugt <8 x i32> %t216, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t218 = select <8 x i1> %t217, <8 x i32> %t215, <8 x i32> %t213
 %t219 = trunc <8 x i32> %t218 to <8 x i16>
 %t220 = bitcast <8 x i16> %t219 to <8 x bfloat>
 %t221 = mul i64 %m, 15
 %t222 = add i64 %t221, %n
 %t223 = getelementptr bfloat, ptr %t166, i64 %t222
 %t224 = bitcast <8 x bfloat> %t220 to <8 x i16>
 store <8 x i16> %t224, ptr %t225, align 2
 %t227 = icmp slt i64 0, %t168
 br i1 %t227, label %for226.pre, label %for226.end
for226.pre:
 br label %for226
for226:
 %i226 = phi i64 [ 0, %for226.pre ], [ %i226.next, %for226.latch ]
 %t228 = getelementptr i16, ptr %t225, i64 %i226
 %t229 = load i16, ptr %t228, align 2
 %t230 = getelementptr i16, ptr %t223, i64 %i226
 store i16 %t229, ptr %t230, align 2
 br label %for226.latch
for226.latch:
 %i226.next = add nsw i64 %i226, 1
 %i226.more = icmp slt i64 %i226.next, %t168
 br i1 %i226.more, label %for226, label %for226.end, !llvm.loop !30
for226.end:
 %t231 = bitcast <8 x bfloat> %t200 to <8 x i16>
 %t232 = zext <8 x i16> %t231 to <8 x i32>
 %t233 = shl <8 x i32> %t232, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t234 = bitcast <8 x i32> %t233 to <8 x float>
 %t235 = fadd <8 x float> %t157, %t234
 %t236 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t235
 %t237 = select <8 x i1> %t236, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t235
 %t238 = bitcast <8 x float> %t237 to <8 x i32>
 %t239 = lshr <8 x i32> %t238, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t240 = and <8 x i32> %t239, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t241 = add <8 x i32> %t240, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t242 = add <8 x i32> %t238, %t241
 %t243 = lshr <8 x i32> %t242, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t244 = lshr <8 x i32> %t238, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t245 = or <8 x i32> %t244, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t246 = and <8 x i32> %t238, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t247 = icmp ugt <8 x i32> %t246, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t248 = select <8 x i1> %t247, <8 x i32> %t245, <8 x i32> %t243
 %t249 = trunc <8 x i32> %t248 to <8 x i16>
 %t250 = bitcast <8 x i16> %t249 to <8 x bfloat>
 %t251 = mul i64 %m, 15
 %t252 = add i64 %t251, %t167
 %t253 = getelementptr bfloat, ptr %t166, i64 %t252
 %t254 = bitcast <8 x bfloat> %t250 to <8 x i16>
 store <8 x i16> %t254, ptr %t255, align 2
 %t257 = icmp slt i64 0, %t176
 br i1 %t257, label %for256.pre, label %for256.end
for256.pre:
 br label %for256
for256:
 %i256 = phi i64 [ 0, %for256.pre ], [ %i256.next, %for256.latch ]
 %t258 = getelementptr i16, ptr %t255, i64 %i256
 %t259 = load i16, ptr %t258, align 2
 %t260 = getelementptr i16, ptr %t253, i64 %i256
 store i16 %t259, ptr %t260, align 2
 br label %for256.latch
for256.latch:
 %i256.next = add nsw i64 %i256, 1
 %i256.more = icmp slt i64 %i256.next, %t176
 br i1 %i256.more, label %for256, label %for256.end, !llvm.loop !31
for256.end:
 %t261 = add i64 %m, 1
 %t262 = bitcast <8 x bfloat> %t191 to <8 x i16>
 %t263 = zext <8 x i16> %t262 to <8 x i32>
 %t264 = shl <8 x i32> %t263, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t265 = bitcast <8 x i32> %t264 to <8 x float>
 %t266 = fadd <8 x float> %t158, %t265
 %t267 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t266
 %t268 = select <8 x i1> %t267, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t266
 %t269 = bitcast <8 x float> %t268 to <8 x i32>
 %t270 = lshr <8 x i32> %t269, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t271 = and <8 x i32> %t270, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t272 = add <8 x i32> %t271, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t273 = add <8 x i32> %t269, %t272
 %t274 = lshr <8 x i32> %t273, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t275 = lshr <8 x i32> %t269, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t276 = or <8 x i32> %t275, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t277 = and <8 x i32> %t269, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t278 = icmp ugt <8 x i32> %t277, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t279 = select <8 x i1> %t278, <8 x i32> %t276, <8 x i32> %t274
 %t280 = trunc <8 x i32> %t279 to <8 x i16>
 %t281 = bitcast <8 x i16> %t280 to <8 x bfloat>
 %t282 = mul i64 %t261, 15
 %t283 = add i64 %t282, %n
 %t284 = getelementptr bfloat, ptr %t166, i64 %t283
 %t285 = bitcast <8 x bfloat> %t281 to <8 x i16>
 store <8 x i16> %t285, ptr %t286, align 2
 %t288 = icmp slt i64 0, %t168
 br i1 %t288, label %for287.pre, label %for287.end
for287.pre:
 br label %for287
for287:
 %i287 = phi i64 [ 0, %for287.pre ], [ %i287.next, %for287.latch ]
 %t289 = getelementptr i16, ptr %t286, i64 %i287
 %t290 = load i16, ptr %t289, align 2
 %t291 = getelementptr i16, ptr %t284, i64 %i287
 store i16 %t290, ptr %t291, align 2
 br label %for287.latch
for287.latch:
 %i287.next = add nsw i64 %i287, 1
 %i287.more = icmp slt i64 %i287.next, %t168
 br i1 %i287.more, label %for287, label %for287.end, !llvm.loop !32
for287.end:
 %t292 = bitcast <8 x bfloat> %t200 to <8 x i16>
 %t293 = zext <8 x i16> %t292 to <8 x i32>
 %t294 = shl <8 x i32> %t293, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t295 = bitcast <8 x i32> %t294 to <8 x float>
 %t296 = fadd <8 x float> %t159, %t295
 %t297 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t296
 %t298 = select <8 x i1> %t297, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t296
 %t299 = bitcast <8 x float> %t298 to <8 x i32>
 %t300 = lshr <8 x i32> %t299, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t301 = and <8 x i32> %t300, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t302 = add <8 x i32> %t301, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t303 = add <8 x i32> %t299, %t302
 %t304 = lshr <8 x i32> %t303, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t305 = lshr <8 x i32> %t299, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t306 = or <8 x i32> %t305, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t307 = and <8 x i32> %t299, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t308 = icmp ugt <8 x i32> %t307, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t309 = select <8 x i1> %t308, <8 x i32> %t306, <8 x i32> %t304
 %t310 = trunc <8 x i32> %t309 to <8 x i16>
 %t311 = bitcast <8 x i16> %t310 to <8 x bfloat>
 %t312 = mul i64 %t261, 15
 %t313 = add i64 %t312, %t167
 %t314 = getelementptr bfloat, ptr %t166, i64 %t313
 %t315 = bitcast <8 x bfloat> %t311 to <8 x i16>
 store <8 x i16> %t315, ptr %t316, align 2
 %t318 = icmp slt i64 0, %t176
 br i1 %t318, label %for317.pre, label %for317.end
for317.pre:
 br label %for317
for317:
 %i317 = phi i64 [ 0, %for317.pre ], [ %i317.next, %for317.latch ]
 %t319 = getelementptr i16, ptr %t316, i64 %i317
 %t320 = load i16, ptr %t319, align 2
 %t321 = getelementptr i16, ptr %t314, i64 %i317
 store i16 %t320, ptr %t321, align 2
 br label %for317.latch
for317.latch:
 %i317.next = add nsw i64 %i317, 1
 %i317.more = icmp slt i64 %i317.next, %t176
 br i1 %i317.more, label %for317, label %for317.end, !llvm.loop !33
for317.end:
 %t322 = add i64 %m, 2
 %t323 = bitcast <8 x bfloat> %t191 to <8 x i16>
 %t324 = zext <8 x i16> %t323 to <8 x i32>
 %t325 = shl <8 x i32> %t324, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t326 = bitcast <8 x i32> %t325 to <8 x float>
 %t327 = fadd <8 x float> %t160, %t326
 %t328 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t327
 %t329 = select <8 x i1> %t328, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t327
 %t330 = bitcast <8 x float> %t329 to <8 x i32>
 %t331 = lshr <8 x i32> %t330, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t332 = and <8 x i32> %t331, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t333 = add <8 x i32> %t332, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t334 = add <8 x i32> %t330, %t333
 %t335 = lshr <8 x i32> %t334, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t336 = lshr <8 x i32> %t330, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t337 = or <8 x i32> %t336, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t338 = and <8 x i32> %t330, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t339 = icmp ugt <8 x i32> %t338, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t340 = select <8 x i1> %t339, <8 x i32> %t337, <8 x i32> %t335
 %t341 = trunc <8 x i32> %t340 to <8 x i16>
 %t342 = bitcast <8 x i16> %t341 to <8 x bfloat>
 %t343 = mul i64 %t322, 15
 %t344 = add i64 %t343, %n
 %t345 = getelementptr bfloat, ptr %t166, i64 %t344
 %t346 = bitcast <8 x bfloat> %t342 to <8 x i16>
 store <8 x i16> %t346, ptr %t347, align 2
 %t349 = icmp slt i64 0, %t168
 br i1 %t349, label %for348.pre, label %for348.end
for348.pre:
 br label %for348
for348:
 %i348 = phi i64 [ 0, %for348.pre ], [ %i348.next, %for348.latch ]
 %t350 = getelementptr i16, ptr %t347, i64 %i348
 %t351 = load i16, ptr %t350, align 2
 %t352 = getelementptr i16, ptr %t345, i64 %i348
 store i16 %t351, ptr %t352, align 2
 br label %for348.latch
for348.latch:
 %i348.next = add nsw i64 %i348, 1
 %i348.more = icmp slt i64 %i348.next, %t168
 br i1 %i348.more, label %for348, label %for348.end, !llvm.loop !34
for348.end:
 %t353 = bitcast <8 x bfloat> %t200 to <8 x i16>
 %t354 = zext <8 x i16> %t353 to <8 x i32>
 %t355 = shl <8 x i32> %t354, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t356 = bitcast <8 x i32> %t355 to <8 x float>
 %t357 = fadd <8 x float> %t161, %t356
 %t358 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t357
 %t359 = select <8 x i1> %t358, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t357
 %t360 = bitcast <8 x float> %t359 to <8 x i32>
 %t361 = lshr <8 x i32> %t360, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t362 = and <8 x i32> %t361, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t363 = add <8 x i32> %t362, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t364 = add <8 x i32> %t360, %t363
 %t365 = lshr <8 x i32> %t364, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t366 = lshr <8 x i32> %t360, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t367 = or <8 x i32> %t366, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t368 = and <8 x i32> %t360, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t369 = icmp ugt <8 x i32> %t368, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t370 = select <8 x i1> %t369, <8 x i32> %t367, <8 x i32> %t365
 %t371 = trunc <8 x i32> %t370 to <8 x i16>
 %t372 = bitcast <8 x i16> %t371 to <8 x bfloat>
 %t373 = mul i64 %t322, 15
 %t374 = add i64 %t373, %t167
 %t375 = getelementptr bfloat, ptr %t166, i64 %t374
 %t376 = bitcast <8 x bfloat> %t372 to <8 x i16>
 store <8 x i16> %t376, ptr %t377, align 2
 %t379 = icmp slt i64 0, %t176
 br i1 %t379, label %for378.pre, label %for378.end
for378.pre:
 br label %for378
for378:
 %i378 = phi i64 [ 0, %for378.pre ], [ %i378.next, %for378.latch ]
 %t380 = getelementptr i16, ptr %t377, i64 %i378
 %t381 = load i16, ptr %t380, align 2
 %t382 = getelementptr i16, ptr %t375, i64 %i378
 store i16 %t381, ptr %t382, align 2
 br label %for378.latch
for378.latch:
 %i378.next = add nsw i64 %i378, 1
 %i378.more = icmp slt i64 %i378.next, %t176
 br i1 %i378.more, label %for378, label %for378.end, !llvm.loop !35
for378.end:
 %t383 = add i64 %m, 3
 %t384 = bitcast <8 x bfloat> %t191 to <8 x i16>
 %t385 = zext <8 x i16> %t384 to <8 x i32>
 %t386 = shl <8 x i32> %t385, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t387 = bitcast <8 x i32> %t386 to <8 x float>
 %t388 = fadd <8 x float> %t162, %t387
 %t389 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t388
 %t390 = select <8 x i1> %t389, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t388
 %t391 = bitcast <8 x float> %t390 to <8 x i32>
 %t392 = lshr <8 x i32> %t391, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t393 = and <8 x i32> %t392, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t394 = add <8 x i32> %t393, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t395 = add <8 x i32> %t391, %t394
 %t396 = lshr <8 x i32> %t395, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t397 = lshr <8 x i32> %t391, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t398 = or <8 x i32> %t397, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t399 = and <8 x i32> %t391, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t400 = icmp ugt <8 x i32> %t399, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t401 = select <8 x i1> %t400, <8 x i32> %t398, <8 x i32> %t396
 %t402 = trunc <8 x i32> %t401 to <8 x i16>
 %t403 = bitcast <8 x i16> %t402 to <8 x bfloat>
 %t404 = mul i64 %t383, 15
 %t405 = add i64 %t404, %n
 %t406 = getelementptr bfloat, ptr %t166, i64 %t405
 %t407 = bitcast <8 x bfloat> %t403 to <8 x i16>
 store <8 x i16> %t407, ptr %t408, align 2
 %t410 = icmp slt i64 0, %t168
 br i1 %t410, label %for409.pre, label %for409.end
for409.pre:
 br label %for409
for409:
 %i409 = phi i64 [ 0, %for409.pre ], [ %i409.next, %for409.latch ]
 %t411 = getelementptr i16, ptr %t408, i64 %i409
 %t412 = load i16, ptr %t411, align 2
 %t413 = getelementptr i16, ptr %t406, i64 %i409
 store i16 %t412, ptr %t413, align 2
 br label %for409.latch
for409.latch:
 %i409.next = add nsw i64 %i409, 1
 %i409.more = icmp slt i64 %i409.next, %t168
 br i1 %i409.more, label %for409, label %for409.end, !llvm.loop !36
for409.end:
 %t414 = bitcast <8 x bfloat> %t200 to <8 x i16>
 %t415 = zext <8 x i16> %t414 to <8 x i32>
 %t416 = shl <8 x i32> %t415, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t417 = bitcast <8 x i32> %t416 to <8 x float>
 %t418 = fadd <8 x float> %t163, %t417
 %t419 = fcmp ogt <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, %t418
 %t420 = select <8 x i1> %t419, <8 x float> <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>, <8 x float> %t418
 %t421 = bitcast <8 x float> %t420 to <8 x i32>
 %t422 = lshr <8 x i32> %t421, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t423 = and <8 x i32> %t422, <i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1>
 %t424 = add <8 x i32> %t423, <i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767, i32 32767>
 %t425 = add <8 x i32> %t421, %t424
 %t426 = lshr <8 x i32> %t425, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t427 = lshr <8 x i32> %t421, <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16>
 %t428 = or <8 x i32> %t427, <i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64, i32 64>
 %t429 = and <8 x i32> %t421, <i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647, i32 2147483647>
 %t430 = icmp ugt <8 x i32> %t429, <i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040, i32 2139095040>
 %t431 = select <8 x i1> %t430, <8 x i32> %t428, <8 x i32> %t426
 %t432 = trunc <8 x i32> %t431 to <8 x i16>
 %t433 = bitcast <8 x i16> %t432 to <8 x bfloat>
 %t434 = mul i64 %t383, 15
 %t435 = add i64 %t434, %t167
 %t436 = getelementptr bfloat, ptr %t166, i64 %t435
 %t437 = bitcast <8 x bfloat> %t433 to <8 x i16>
 store <8 x i16> %t437, ptr %t438, align 2
 %t440 = icmp slt i64 0, %t176
 br i1 %t440, label %for439.pre, label %for439.end
for439.pre:
 br label %for439
for439:
 %i439 = phi i64 [ 0, %for439.pre ], [ %i439.next, %for439.latch ]
 %t441 = getelementptr i16, ptr %t438, i64 %i439
 %t442 = load i16, ptr %t441, align 2
 %t443 = getelementptr i16, ptr %t436, i64 %i439
 store i16 %t442, ptr %t443, align 2
 br label %for439.latch
for439.latch:
 %i439.next = add nsw i64 %i439, 1
 %i439.more = icmp slt i64 %i439.next, %t176
 br i1 %i439.more, label %for439, label %for439.end, !llvm.loop !37
for439.end:
 ret void
}
!0 = !{!"llvm.loop.unroll.disable"}
!1 = distinct !{!1, !0}
!2 = distinct !{!2, !0}
!3 = distinct !{!3, !0}
!4 = !{!"llvm.loop.unroll.count", i32 4}
!5 = distinct !{!5, !4}
!6 = distinct !{!6, !4}
!7 = distinct !{!7, !0}
!8 = distinct !{!8, !0}
!9 = distinct !{!9, !0}
!10 = distinct !{!10, !0}
!11 = distinct !{!11, !0}
!12 = distinct !{!12, !0}
!13 = distinct !{!13, !0}
!14 = distinct !{!14, !0}
!15 = distinct !{!15, !0}
!16 = distinct !{!16, !0}
!17 = distinct !{!17, !0}
!18 = distinct !{!18, !0}
!19 = distinct !{!19, !0}
!20 = distinct !{!20, !0}
!21 = distinct !{!21, !0}
!22 = distinct !{!22, !0}
!23 = distinct !{!23, !0}
!24 = distinct !{!24, !0}
!25 = distinct !{!25, !0}
!26 = distinct !{!26, !0}
!27 = distinct !{!27, !0}
!28 = distinct !{!28, !0}
!29 = distinct !{!29, !0}
!30 = distinct !{!30, !0}
!31 = distinct !{!31, !0}
!32 = distinct !{!32, !0}
!33 = distinct !{!33, !0}
!34 = distinct !{!34, !0}
!35 = distinct !{!35, !0}
!36 = distinct !{!36, !0}
!37 = distinct !{!37, !0}
!38 = distinct !{!38, !0}
!39 = distinct !{!39, !0}
!40 = distinct !{!40, !0}
!irc.brief = !{}
